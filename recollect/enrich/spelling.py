"""Texts as the rules read them: one character for each letter, and casual spelling written out.

"Málaga" may arrive with its accent as a character of its own, a number in wide or Arabic digits, a line with marks for
its direction; and "me n dylan" is read as "me and dylan". Only abbreviations are written out; a letter that may be a
name or a variable is left alone. Positions in the resulting text map back to positions in the original.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from recollect.enrich.names import FIRST_NAMES, words
from recollect.policies.patterns import pattern_of

_FULL = {
    "u": "you", "ur": "your", "urself": "yourself", "wanna": "want to", "gonna": "going to", "tryna": "trying to",
    "gotta": "have to", "gimme": "give me", "lemme": "let me", "lil": "little", "bday": "birthday",
    "bdays": "birthday's", "birthdays": "birthday's", "abt": "about", "tmrw": "tomorrow", "tmr": "tomorrow",
    "tmrrw": "tomorrow", "yr": "year", "yrs": "years", "ppl": "people", "smth": "something", "pls": "please",
    "plz": "please", "plss": "please", "plsss": "please", "thats": "that's", "whats": "what's", "isnt": "isn't",
    "wasnt": "wasn't", "doesnt": "doesn't", "didnt": "didn't", "wont": "won't", "cant": "can't", "hasnt": "hasn't",
    "havent": "haven't", "arent": "aren't", "shes": "she's", "hes": "he's", "theyre": "they're", "youre": "you're",
    "wld": "would", "w": "with", "w/": "with", "w/o": "without", "n": "and", "r": "are", "bro": "brother",
    "every1": "everyone", "some1": "someone", "any1": "anyone", "shd": "should", "2": "to", "4": "for",
    "phones": "phone's", "laptops": "laptop's", "cars": "car's", "names": "name's", "mums": "mum's", "moms": "mom's",
    "dads": "dad's", "gfs": "gf's", "bfs": "bf's", "wifes": "wife's", "hubbys": "hubby's",
    "rly": "really", "prolly": "probably",
}  # fmt: skip
_CASUAL = frozenset(
    word + sign for word in _FULL for sign in ("", ",", ".", "!", "?", "!!", "??", "...", ";", ":", ")")
)
"""The same words as they appear in a text split at white space, with punctuation attached."""
_WORD = pattern_of(
    r"(?<![\w'’/@#.$-])(?:" + "|".join(sorted(map(str, _FULL), key=len, reverse=True)) + r")(?![\w'’/=(\[-])"
)
_BEFORE = pattern_of(r"([\w'’]+)[ \t]+\Z")
_AFTER = pattern_of(r"[ \t]+([\w'’]+)")
_NO_AND = words(
    """
    for, of, the, a, an, when, where, with, in, size, is, are, by, if, let, mod, to, at, on, and, or, than, my, rock,
    times
    """
)
"""Words before an n that is a number, a note or a letter: "of n items"."""
_MANY = words(
    "you, u, they, we, these, those, kids, children, people, what, how, where, who, there, which, why, options"
)
_TO_DO = words(
    """
    be, lose, run, get, do, save, learn, make, go, buy, become, find, see, eat, stop, start, move, quit, have, keep,
    finish,
    write, work, live, try, help
    """
)
_MOVED = words("moved, move, moving, went, go, going, flying, came, back, over, talking, listening, relocated")
_FOR_WHAT = words(
    """
    me, my, us, our, him, her, them, you, everything, everyone, it, this, that, the, a, an, all, work, free, now,
    cheap, dinner,
    lunch, breakfast, fun, sure, real, life, ages, school, uni, today, tonight
    """
)
LOOKED_BACK = 24
ENDS = 3_000
"""Characters at each end of a text that are composed: more than the rules read of a long one."""


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text written out, with the position of each expanded word now and before."""

    text: str
    places: tuple[tuple[int, int, int, int], ...] = ()

    def span(self, span: tuple[int, int]) -> tuple[int, int]:
        """The same span in the original text. A word that was written out is covered whole."""
        return self._place(span[0], 2), self._place(span[1], 3)

    def _place(self, at: int, side: int) -> int:
        moved = 0
        for place in self.places:
            first, last, _, was_last = place
            if at <= first:
                break
            if at < last:
                return place[side]
            moved = was_last - last
        return at + moved


_ODD = pattern_of(
    r"\w[\u0300-\u036f]++|[^\W_a-zA-Z0-9](?:(?<=[\uff00-\uffef])|(?<=(?![0-9])\d))"
    r"|[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
"""A letter with accents of its own, a wide letter or digit, a digit of another script, a mark that is not seen."""


def composed(text: str) -> Spelled:
    """The text with one character for each letter, plain digits, and without marks that nobody sees.

    >>> composed("Jose\\u0301 is \\uff12\\uff19").text
    'José is 29'
    """
    if text.isascii():
        return Spelled(text)
    last = max(len(text) - ENDS, ENDS)
    odd = chain(_ODD.finditer(text, 0, ENDS), _ODD.finditer(text, last))
    return _replaced(text, [(*each.span(), _plain(each.group())) for each in odd])


def _plain(odd: str) -> str:
    if odd.isdecimal():
        return str(unicodedata.decimal(odd))
    return "" if unicodedata.category(odd[0]) == "Cf" else unicodedata.normalize("NFKC", odd)


def spelled_out(text: str) -> Spelled:
    """The text with its abbreviations written out.

    >>> spelled_out("me n dylan broke up, can u cheer me up pls").text
    'me and dylan broke up, can you cheer me up please'
    """
    if _CASUAL.isdisjoint(text.split()):
        return Spelled(text)
    found = [(*match.span(), _in_full(text, *match.span())) for match in _WORD.finditer(text)]
    return _replaced(text, [(first, last, full) for first, last, full in found if full is not None])


def _replaced(text: str, changes: Sequence[tuple[int, int, str]]) -> Spelled:
    """The text with other characters in these places."""
    parts, places, done, length = [], [], 0, 0
    for first, last, full in changes:
        length += first - done
        places.append((length, length + len(full), first, last))
        parts += [text[done:first], full]
        length, done = length + len(full), last
    return Spelled("".join([*parts, text[done:]]), tuple(places)) if places else Spelled(text)


def _in_full(text: str, first: int, last: int) -> str | None:
    """What an abbreviation stands for, or None where it may be something else."""
    word = text[first:last]
    found = _BEFORE.search(text, max(0, first - LOOKED_BACK), first)
    before = found[1] if found else ""
    following = _AFTER.match(text, last)
    after = following[1] if following else ""
    if word == "n":
        named = before[:1].isupper() and after[:1].isupper()
        return None if not after or not before or named or before.lower() in _NO_AND else "and"
    if word == "r":
        return "are" if after and (before.lower() in _MANY or (before.endswith("s") and before.islower())) else None
    if word == "w":
        return "with" if before and after else None
    if word == "2":
        there = before in _MOVED and after[:1].isupper()
        return "to" if before.islower() and (before == "allergic" or there or after in _TO_DO) else None
    if word == "4":
        return "for" if before.islower() and after in _FOR_WHAT else None
    if word in ("phones", "laptops", "cars"):
        return _FULL[word] if before.lower() == "my" and after in ("a", "an", "the") else None
    if word in ("bdays", "birthdays"):
        return "birthday's" if before in ("my", "My") and after else None
    if word == "bro":
        return "brother" if before in ("my", "our", "lil", "little", "big", "older", "younger") else None
    if word == "names":
        told = before in ("", "my", "real", "full", "first", "hi", "hey", "yo", "sup") and (
            after[:1].isupper() or after in FIRST_NAMES
        )
        return "name's" if told else None
    if word in ("mums", "moms", "dads", "gfs", "bfs", "wifes", "hubbys"):
        named = after in ("called", "named", "name")
        return (_FULL[word] if before else f"my {_FULL[word]}") if named else None
    return _FULL[word]
