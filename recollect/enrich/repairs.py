"""Values that are put right in the same breath: "I live in Paris, no, sorry, Lyon" says "I live in Lyon".

The sentence is read again without the first value and the words that take it back. Where that says nothing of the same
kind, but something was clearly taken back, neither is learned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from recollect.enrich import Draft
from recollect.enrich.names import (
    CITIES,
    COUNTRIES,
    FIRST_NAMES,
    LANGUAGES,
    ORGANISATIONS,
    PROGRAMMING_LANGUAGES,
    REGIONS,
    TOOLS,
)
from recollect.enrich.people import TOLD_OF
from recollect.enrich.sentences import Sentence

_STRONG = (
    r"(?:no(?=,| sorry\b| wait\b| actually\b| i mean| hang\b| hold\b|[.…–—-])|nope|sorry|so sorry|wait|oops|whoops|ugh"
    r"|i mean|(?:what )?i meant(?: to (?:say|write|type))?(?: is| was)?|or rather|correction|scratch that"
    r"|strike that|pardon(?: me)?|my bad|my mistake|excuse me|typo|hang on|hold on|err|erm"
    r"|i should say|(?:that|it) should (?:be|say)|or,? actually)"
)
_WEAK = (
    r"(?:ah|oh|um|uh|well|actually|no|make (?:that|it)|it's|its|it is|that's|the name is|in|at|to|with|as an?|an?|and"
    r"|is)"
)
_PLAIN = (
    r"(?:no(?=,? (?:sorry|wait|actually|i mean|i meant)\b)|(?:what )?i mean|i meant(?: to (?:say|write|type))?"
    r"(?: is| was)?|scratch that|strike that|correction)"
)
"""What puts a sentence right in the next one. An apology may be for anything: "I love pizza. Sorry, lunch break"."""
_CLEARLY = re.compile(
    r"\b(?:no|nope|i mean|i meant|scratch that|strike that|or rather|correction|(?:should|to) (?:be|say|write|type))\b"
)
_EXACT = frozenset({"name", "nickname", "age", "birthday"})
"""Keys whose values can hardly be taken for anything else."""
_APART = (
    r"(?:[\s\x00]{0,3}[,;:.…(–—-]+[\s\x00]{0,3}|[\s\x00]{1,3}(?=(?:no,? (?:wait|sorry)|oops|scratch that|or rather)\b))"
)
_TAKES_BACK = re.compile(
    rf"{_APART}(?:{_WEAK}[\s,]{{1,3}}){{0,2}}{_STRONG}(?:[\s,.:…–—-]{{1,4}}(?:{_STRONG}|{_WEAK})){{0,4}}"
    r"[\s,.:…–—-]{1,4}(?=\w)"
)
_ALONE = re.compile(
    rf"(?:(?:oh|ah|um|uh|well|actually|wait|sorry|oops)[\s,]{{1,3}}){{0,2}}{_PLAIN}"
    rf"(?:[\s,.:…–—-]{{1,4}}(?:{_STRONG}|{_WEAK})){{0,4}}[\s,.:…–—-]{{1,4}}"
    r"[^\s.!?,]+(?: [^\s.!?,]+){0,5}[\s.!]*\Z"
)
_SAYS_MORE = re.compile(
    r"(?:for|about|if|that|forgot|forget|i|i'm|i've|we|you|he|she|they|not|it|my|our|your|this|what|why|how|when|where"
    r"|who|can|could|would|do|does|is|are|was|there|thanks|please|late|just|bit|long|really|seriously|honestly|even"
    r"|because|but|so|nothing|never|mind|everyone|all|to|too|should|let|ignore|hard|wrong)\b"
)
"""After an apology, not another value: "I live in Paris, sorry, forgot to say"."""
_NAMES_A_THING = re.compile(
    r"(?!.*? (?:is|are|was|were|has|have|isn't|would|can|does)\b)[\w'’-]+(?: (?!and\b|but\b)[\w'’-]+){0,2}"
    r"(?:\W*\Z|[,.;!()–—]| and | but )"
)
_OF_ANOTHER = re.compile(
    rf"(?:that(?:'s| is| was)|it's|it is)? ?(?:my|our) (?:[\w'-]+ ){{0,2}}?{TOLD_OF.pattern}|(?:he|she|they) "
)
_UNSAID = re.compile(
    r"(?:i|we) (?:don't|dont|do not|didn't|did not|am not|was|were|used to|wish|never|no longer)\b|(?:i'm|im) not\b"
    r"|not (?:any ?more|any longer|really|at all|now)\b"
)
"""Taken back without another value: "I live in Leeds, wait, no, I don't"."""
_ENDS = re.compile(r"[\s\x00]*(?:[,.;:!?()–—\x00]|\Z|-|(?:and|but|now|so|as|since|for|at|because|these)\b)")
_MORE = re.compile(r"[\w' ]{0,14}")
_REPAIRS_MAX = 3

Read = Callable[[Sentence], list[Draft]]


def repaired(sentence: Sentence, read: Read, left: int = _REPAIRS_MAX) -> list[Draft]:
    """The facts of a sentence, with what is put right within it; `read` reads a sentence without looking for that."""
    facts = read(sentence)
    if not left or not facts:
        return facts
    for match in _TAKES_BACK.finditer(sentence.low):
        wrong = list(_ending_at(sentence, facts, match.start()))
        if not wrong:
            continue
        after = sentence.low[match.end() :]
        again = [fact for fact in facts if match.start() <= fact.span[0] - sentence.start <= match.end() + 1]
        if any(fact.key == old.key and not fact.ends for fact in again for old in wrong):
            facts = [fact for fact in facts if fact not in wrong]
        elif (_is_clear(match.group(), wrong[-1].key) or _names_one(sentence.text[match.end() :])) and (
            right := _read_again(sentence, wrong[-1], match, read, left)
        ) is not None:
            return right
        elif _OF_ANOTHER.match(after) or _UNSAID.match(after):
            facts = [fact for fact in facts if fact not in wrong]
        elif _NAMES_A_THING.match(after) and not _SAYS_MORE.match(after):
            facts = [fact for fact in facts if fact.span[1] - sentence.start > match.start()]
    return facts


def _is_clear(taken_back: str, key: str) -> bool:
    """Whether what follows is meant as the value: an apology may be for anything ("I love jazz, sorry, one moment")."""
    return _CLEARLY.search(taken_back) is not None or (key in _EXACT and taken_back.rstrip().endswith((",", ":")))


_LISTED = frozenset({*ORGANISATIONS, *CITIES, *REGIONS, *COUNTRIES, *LANGUAGES, *PROGRAMMING_LANGUAGES, *TOOLS}) - {
    *FIRST_NAMES
}


def _names_one(after: str) -> bool:
    """Whether nothing but the name of a known place, company or the like follows, as in "Sorry, Bosch."."""
    return after[:1].isupper() and after.strip(" .!\x00").lower() in _LISTED


def was_repaired(said: Sequence[Draft], after: Sequence[Draft], begins: int) -> bool:
    """Whether a fact has another value now, which is said from `begins` on."""
    return any(
        new.key == old.key and not new.ends and new.value != old.value and new.span[1] > begins
        for old in said
        for new in after
    )


def is_repaired(low: str) -> bool:
    """Whether something is taken back in a short answer: "Oslo, sorry, Bergen"."""
    return _TAKES_BACK.search(low) is not None


_SORRY = re.compile(r"(?:(?:Oh|Ah|Wait|Oops),? )?[Ss]orry[,:]? [A-Z][\w'’-]+\W*")
_ADDRESSED = re.compile(r"sorry,? (?P<name>[^\W\d_][\w'’-]+)\W*\Z")
"""An apology to somebody, after something else than a name: "I work for Siemens. Sorry, Bob"."""


def joined(before: Sentence, sentence: Sentence) -> Sentence | None:
    """Both as one, where the second only puts the first right: "I live in Oslo. Wait, I meant Bergen!"."""
    apart = sentence.start - before.start - len(before.text)
    if not 1 <= apart <= 6 or not (_ALONE.match(sentence.low) or _SORRY.fullmatch(sentence.text.strip())):
        return None
    addressed = _ADDRESSED.match(sentence.low)
    if addressed and addressed["name"] in FIRST_NAMES and "name" not in before.low:
        return None
    between = ",".ljust(apart)
    return Sentence(before.text + between + sentence.text, before.low + between + sentence.low, before.start)


def _ending_at(sentence: Sentence, facts: Sequence[Draft], at: int) -> Iterator[Draft]:
    """The facts that end where something is taken back, or a few words before it: "I live in Paris now, no, Lyon"."""
    for fact in facts:
        last = fact.span[1] - sentence.start
        if fact.span[0] - sentence.start < at and last <= at and _MORE.fullmatch(sentence.low, last, at):
            yield fact


def _read_again(sentence: Sentence, wrong: Draft, match: re.Match[str], read: Read, left: int) -> list[Draft] | None:
    """The facts with the second value in the place of the first; None where that is not read as the same thing."""
    for first in _beginnings(sentence, wrong, match.start()):
        text = sentence.text[:first] + sentence.text[match.end() :]
        low = sentence.low[:first] + sentence.low[match.end() :]
        cut = Sentence(text, low, sentence.start)
        at = sentence.start + first
        for fact in read(cut):
            last = fact.span[1] - sentence.start
            same = fact.key == wrong.key and fact.ends == wrong.ends and fact.value.casefold() != wrong.value.casefold()
            if same and last > first and fact.span[0] <= at and _ENDS.match(low, last) and _begins(low, first, fact):
                return [_moved(fact, at, match.end() - first) for fact in repaired(cut, read, left - 1)]
    return None


def _begins(low: str, first: int, fact: Draft) -> bool:
    """Whether the new value is what stands in the place of the old one, where it is written as it is kept."""
    value = fact.value.lower()
    return value not in low or low.startswith(value, first)


def _beginnings(sentence: Sentence, wrong: Draft, at: int) -> Iterator[int]:
    """Where the value that is taken back may begin: where it is written, else the farthest of the last few words."""
    begins = wrong.span[0] - sentence.start
    found = sentence.low.rfind(wrong.value.lower(), max(0, begins), at)
    if found >= 0:
        yield found
        return
    starts = [word.start() for word in re.finditer(r"(?<!\S)\S", sentence.low[:at]) if word.start() >= begins]
    yield from starts[-5:]


def _moved(fact: Draft, at: int, by: int) -> Draft:
    """A fact of a sentence from which some characters were cut, with its place in the whole sentence."""
    first, last = fact.span
    return replace(fact, span=(first + by if first >= at else first, last + by if last > at else last))
