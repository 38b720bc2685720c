"""Episodes without a model: what a stretch of conversation was about, in the speakers' own words.

`stretches` cuts a session where people paused or changed the subject; `write` makes notes of one
stretch: a title, a short text of quotations, people, dates, decisions and open questions. Only the
user and the assistant are quoted, and only the user's own words from what a user sent: instructions,
tool results and pasted text are not. The cues are English; in other languages the notes have fewer
sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from recollect.enrich import summaries
from recollect.enrich.company import people
from recollect.enrich.languages import FOREIGN
from recollect.enrich.summaries import Point, Summary
from recollect.policies.dates import DAYS
from recollect.policies.fitting import Unit, messages_of, units
from recollect.policies.importance import importance, kind_of, lowered
from recollect.policies.patterns import pattern_of
from recollect.policies.words import LETTERS, STOP_WORDS, is_unspaced, query_terms, terms
from recollect.records import HOUR_MS, TRUSTS, Record, as_datetime

EXTRACTOR = "episodes-2"
"""Stored with every episode, so that those made by older rules can be recognised and rebuilt."""

# Where a stretch ends.
GAP_MS = 2 * HOUR_MS
"""A pause this long ends a stretch: a user who returns after it usually brings a new subject."""
MESSAGES_MAX = 40
"""Maximum messages in a stretch. More would not fit into notes that can be read at a glance."""
MESSAGES_MIN = 4
"""A pause does not end a stretch shorter than this: two messages a day would become a note each."""
LOOKED_AT = 4
"""Units compared on each side of a position, to see whether the topic changes there."""

# What is quoted, and how much.
WORDS_MAX = 120
"""Maximum words in the notes: about 160 tokens, so that a context has room for several episodes."""
WORDS_AROUND = 20
"""Of these, the words reserved for what is not quoted."""
SECTION_WORDS = {"Decided": 35, "Open": 30, "Asked": 30, "Said": WORDS_MAX, "The assistant": 40}
"""The sections of the notes in the order they claim room, and the most words each may take."""
SECTIONS = ("Said", "Asked", "The assistant", "Decided", "Open")
"""The same sections in reading order."""
LISTED_MAX = 5
"""Most entries kept in each list: decisions, open questions, names and dates."""
QUOTE_MAX = 200
"""Maximum characters in a quotation; a longer sentence is cut at a word."""
TITLE_MAX = 60
"""Maximum characters in a title that has to be a quotation, because nothing came up twice."""
PASTED, TYPED = 800, 300
"""A message longer than the first contains more than its user typed (one in a hundred does); of such
a message only the first and last paragraph, if no longer than the second, count as their own words."""
READ_MAX = 4_000
"""Maximum characters read of a message: a longer answer makes its point early, and the time stays bounded."""
SHORT_ANSWER = 300
"""Up to this many characters, "I don't know" is the whole answer and not the beginning of a better one."""
CONTENT_WORDS_MIN = 2
"""Content words that a sentence needs to be quoted: "I'll check those options" has none."""
SPECIFIC, ON_TOPIC, VAGUE = 0.10, 0.06, -0.15
"""What a sentence gains or loses here: dates and numbers are asked for later, good intentions are not."""
AGREED_SCORE = 0.5
"""The weight of an accepted offer: as much as a decision in the user's own words."""
WEIGHED_MAX = 40
"""Maximum points of one section that are compared with each other: many times what fits."""
ALIKE = 0.6
"""A sentence that shares this part of its words with a better one merely repeats it."""

# What it was about.
TOPICS_MAX, TOPICS_FROM = 3, 2_000
"""Maximum phrases that name the subject, and maximum characters of a message that are searched for them."""
TOPIC_MENTIONS = 4
"""Mentions that make a topic; a user message counts as three, an assistant message as one."""
TOPIC_LENGTHS = {1: 1.0, 2: 2.2, 3: 2.6}
"""Weight of a phrase by its number of words: one that occurs half as often as a single word still says more."""

_DECIDED = pattern_of(
    r"\b(?:(?:i|we)(?:'ve| have)?(?: just| finally| all)? (?:decided|agreed|chose|chosen|picked(?! up)|settled on"
    r"|opted)|i think (?:i'll|i will|we'll)|(?:i|we)(?:'ll| will|'m going to|'re going to|'m gonna)"
    r"(?: just| definitely| probably| then| also)? (?:take|use|try|go with|go for|choose|pick|book|order|buy|stick"
    r"|start|switch|skip|sign up|schedule|price|offer|join|apply)|let's (?:go|use|do|take|pick|keep|stick|try|book)"
    r"|(?:i'm|i am|we're|we are) going with|(?:i|we) went with|the plan is|from now on|final answer"
    r"|(?:ok|okay|yes|sure),? (?:please )?(?:do|book|order|send) (?:it|that|them|the))\b"
)
_NOT_YET = pattern_of(
    r"\b(?:haven't|have not|not|can't|cannot|couldn't|didn't|don't)(?: \w+)? (?:decided?|chosen?|agreed?)\b"
)
_AGREED = pattern_of(
    r"(?:(?:yes|yeah|yep|ok|okay|sure|please|perfect|great|sounds good|go ahead|do it|do that|absolutely|definitely"
    r"|thanks|thank you|that works|that would be great)\b[\s,.!]*){1,4}\Z"
)
_OFFER = pattern_of(r"(?:shall|should) (?:i|we)\b|(?:do you want|would you like) me to\b|may i\b")
_PENDING = pattern_of(
    r"\b(?:(?:i'll|i will|let me) (?:get back|let you know|think about (?:it|that)|come back|decide later|check with)"
    r"|remind me (?:to|about|of|on|at|in|tomorrow|when)|todo|to-do:|not decided|haven't(?: \w+)? decided|can't decide"
    r"|still (?:need to|have to|waiting|to be|looking for|figuring))\b"
)
_NO_ANSWER = pattern_of(
    r"\b(?:i don't know|i do not know|i'm not sure|i couldn't|i could not|i can't|i cannot|i'm unable|let me check"
    r"|i'll (?:check|look into|get back|find out)|no information)\b"
)
_VAGUE = pattern_of(
    r"\b(?:i'll (?:definitely|also|make sure|keep)|i(?:'d| would) (?:love|like) to|i want to make sure|helpful"
    r"|i(?:'m| am) (?:really |also |particularly )?(?:interested|looking|curious)|appreciate|suggestions|thanks"
    r"|consider|remember to|keep in mind|sounds|a great)\b"
)
_POINTING = pattern_of(r"\b(?:it|they|them|this|that|these|those|the two)\b")
_LEANING = pattern_of(r"(?:\w+ ){0,3}(?:it|its|they|them|he|him|she|her|this|that|these|those)\b")
_OPENING = pattern_of(
    r"(?:(?:by the way|and by the way|btw|and also|and yeah|also|oh|hey|hi|hello|well|so|anyway|and|but|yeah|yes|yup"
    r"|ok|okay|actually|great|thanks|thank you|that's great|sure)"
    r"(?:, |! |\. |: | - |\s(?=i\b|we\b|my\b|do you|can you)))+",
    re.IGNORECASE,
)
_NUMBER = pattern_of(r"\d")
_MARKS = pattern_of(r"\*\*|__|`")
_STRAIGHT = str.maketrans("“”", '""')
_TOKEN = pattern_of(rf"(?:(?!_)[{LETTERS}])+(?:['’.-](?:(?!_)[{LETTERS}])+)*|[.!?,;:()\n\"“”]")
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = pattern_of(
    rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|(?:{_MONTHS}) {_DAY}\b(?:,? \d{{4}})?|{_DAY}(?: of)? (?:{_MONTHS})(?: \d{{4}})?"
    rf"|(?:{_MONTHS}) \d{{4}}|\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?|(?:next|last|this) (?:week(?:end)?|month|year|summer"
    r"|winter|spring|autumn|fall)|(?:(?:next|last|this|on) )?(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
    r"|yesterday|tomorrow|today|tonight)\b"
)
# Words that are never a topic: of talking, wanting, liking and doing, of time and amount, of advice.
_DULL_WORDS = """
    able actually add adding adds advice ago amazing anything appreciate around ask asking ate based best better
    bit bought bring btw buy buying call called calling calls came care case changed check come consider
    considering cos could couple create curious current currently cuz day days definitely different don't due
    during eat eating eats eight else ended enjoy enjoying even ever every exactly example excited experience
    experimenting explain explore favorite favourite feel feeling felt few figure find finding fine first five
    found four generate get getting give given go going gonna good got great guess haha happy hate hates healthy
    hear heard hello help helpful hey hi hoping hour hours i'd i'll i'm i've idea ideas improve include
    information interested interesting isn't issue issues it's keep keeping kept kind know last lately later learn
    learning leave left less let let's like list little live lived lives living lol long look looking lost lot
    lots love loved loves made make making many maybe mean mention mentioned might mind minute minutes month
    months more most move much name need needs never new next nice nine nobody now often okay old one ones option
    options other own paid part pay people perfect plan planning playing popular possible prefer pretty
    professional provide put question questions quit read reading ready real really recently recommend
    recommendation recommendations regarding remember resources rest right said say says second see seem seen set
    seven share show since sit six someone something soon sound sounds speaking special specific specifically
    spend spent start started starting stay staying still stop stopped stuff suggest suggestion suggestions sure
    take taking talk tell tells ten thank thanks that's there's they're thing things think thinking third thought
    three time times tip tips today together told tomorrow topic treat tried trouble try trying turn turned
    turning two understand upcoming use used useful using usually various wait wanna want wanted way ways we're
    week weekend weeks well went what's whatever whole without wondering work working works worth wow write wrote
    yeah year years yes yesterday yet you're
"""
_DULL = frozenset(_DULL_WORDS.split()).union(DAYS, (f"{day}s" for day in DAYS))


@dataclass(frozen=True, slots=True)
class Notes:
    """What is noted about one stretch of conversation."""

    title: str
    text: str
    importance: float
    trust: str
    topics: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Title and lists, as JSON."""
        return {
            "title": self.title,
            "topics": list(self.topics),
            "people": list(self.people),
            "dates": list(self.dates),
            "decisions": list(self.decisions),
            "open_questions": list(self.open_questions),
        }


# ── Where a stretch ends ─────────────────────────────────────────────────────────────────────────


def stretches(
    messages: Sequence[Record], *, gap_ms: int = GAP_MS, messages_max: int = MESSAGES_MAX
) -> list[list[Record]]:
    """Split the messages of a session into stretches: every message in exactly one, in order.

    A long pause ends a stretch. One that grows too long is cut where the words change most, before a
    user message if there is one. A tool call and its results are never separated, even if they alone
    are too many.
    """
    found: list[list[Record]] = []
    for block in _between_pauses(units(messages), gap_ms):
        rest = block
        while sum(map(len, rest)) > messages_max and (cut := _cut(rest, messages_max)) < len(rest):
            found.append(messages_of(rest[:cut]))
            rest = rest[cut:]
        found.append(messages_of(rest))
    return found


def _between_pauses(pieces: Iterable[Unit], gap_ms: int) -> Iterator[list[Unit]]:
    block: list[Unit] = []
    for unit in pieces:
        paused = bool(block) and unit[0].when - block[-1][-1].when >= gap_ms
        if paused and sum(map(len, block)) >= MESSAGES_MIN:
            yield block
            block = []
        block.append(unit)
    if block:
        yield block


def _cut(pieces: Sequence[Unit], messages_max: int) -> int:
    """The unit before which an overlong stretch is best cut: in its second half, leaving a rest worth having."""
    total = sum(map(len, pieces))
    least = min(messages_max // 2, total - MESSAGES_MIN)
    before = 0
    places: list[int] = []
    for place, unit in enumerate(pieces[:-1], start=1):
        before += len(unit)
        if before > messages_max and places:
            break
        if before >= least:
            places.append(place)
    near = pieces[: max(places, default=0) + LOOKED_AT]  # the rest is read when its turn comes
    words = [frozenset(query_terms(" ".join(message.content for message in unit))) for unit in near]
    by_user = [place for place in places if pieces[place][0].data.get("role") == "user"]
    return min(by_user or places, key=lambda place: (_likeness(words, place), -place), default=len(pieces))


def _likeness(words: Sequence[frozenset[str]], place: int) -> float:
    """The share of the words before a position that recur after it, from 0 to 1."""
    none: frozenset[str] = frozenset()
    before = none.union(*words[max(place - LOOKED_AT, 0) : place])
    after = none.union(*words[place : place + LOOKED_AT])
    return len(before & after) / max(min(len(before), len(after)), 1)


# ── Notes of a stretch ───────────────────────────────────────────────────────────────────────────


def write(messages: Sequence[Record]) -> Notes | None:
    """Notes of a stretch, or None if nothing in it is worth noting.

    They are only as trusted as the least trusted of the messages, quoted or not.
    """
    heard = [own for message in messages if (own := _own_words(message)).content]
    users = [message for message in heard if message.data["role"] == "user"]
    if len(users) < 2 or all(kind_of(message.content) == "small talk" for message in users):
        return None
    named = _people(users)
    topics = _topics(heard, named)
    found = _sorted(_points(heard, topics), heard)
    chosen = _chosen(found)
    quoted = [point for section in SECTIONS for point in chosen[section]]
    if not quoted:
        return None
    return Notes(
        title=_capital(", ".join(topics)) or _shortened(quoted[0].text, TITLE_MAX),
        text=_text(messages, topics, chosen),
        importance=_weight(quoted),
        trust=min((message.trust for message in messages), key=TRUSTS.index),
        topics=tuple(topics),
        people=tuple(named),
        dates=tuple(_dates(users)),
        decisions=tuple(point.text for point in found["Decided"][:LISTED_MAX]),
        open_questions=tuple(point.text for point in found["Open"][:LISTED_MAX]),
    )


def _own_words(message: Record) -> Record:
    """The message reduced to what may be quoted: nothing from tools or instructions, nothing quoted or pasted."""
    if message.data.get("role") not in ("user", "assistant") or message.trust == "quarantined":
        return message.with_(content="")
    text = message.content
    if "parts" in message.data:  # a part may be a tool result
        text = "\n".join(part["text"] for part in message.data["parts"] if part.get("type") == "text")
    if message.data["role"] == "user":
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))
        if len(text) > PASTED:
            text = _typed(text)
    return message.with_(content=text[:READ_MAX].strip())


def _typed(text: str) -> str:
    """What comes before and after a pasted text, if it is short enough to have been typed."""
    paragraphs = [paragraph for paragraph in text.splitlines() if paragraph.strip()]
    ends = dict.fromkeys((*paragraphs[:1], *paragraphs[-1:]))
    return "\n".join(paragraph for paragraph in ends if len(paragraph) <= TYPED)


# ── What is worth a quotation ────────────────────────────────────────────────────────────────────


def _points(heard: Sequence[Record], topics: Sequence[str]) -> list[Point]:
    """Every sentence that a summary would consider, weighed for notes and ready to be quoted."""
    no_limit = sum(len(message.content) + len(message.id) for message in heard) * 2
    points = summaries.fold(None, heard, tokens_max=no_limit, count=_words).points
    about = {stem for topic in topics for stem in terms(topic)}
    return [
        replace(point, text=_quotation(point.text), score=point.score + _fitness(point.text, about))
        for point in _joined(points, heard)
        if point.text.count('"') % 2 == 0 and not point.text.rstrip("*_ ").endswith(":")
    ]


def _joined(points: Iterable[Point], heard: Sequence[Record]) -> list[Point]:
    """The points, with any that leans on the sentence before it merged into that one."""
    texts = {message.id: " ".join(message.content.split()) for message in heard}
    found: list[Point] = []
    for point in points:
        before = found[-1] if found and found[-1].message_id == point.message_id else None
        both = f"{before.text} {point.text}" if before and _LEANING.match(lowered(point.text)) else ""
        if before and both and len(both) <= QUOTE_MAX and both in texts[point.message_id]:
            score = max(before.score, point.score)
            found[-1] = replace(point, text=both, score=score, open=before.open or point.open)
        else:
            found.append(point)
    return found


def _fitness(sentence: str, about: set[str]) -> float:
    """What a sentence is worth in notes beyond its worth in a summary."""
    low = lowered(sentence)
    specific = SPECIFIC if _NUMBER.search(sentence) or _DATE.search(sentence) else 0.0
    on_topic = ON_TOPIC if not about.isdisjoint(terms(sentence)) else 0.0
    vague = _VAGUE.search(low) or (sentence.endswith("?") and _POINTING.search(low))
    return specific + on_topic + (VAGUE if vague else 0.0)


def _quotation(sentence: str) -> str:
    """A sentence without its markup and without the words that only lead up to it."""
    plain = _MARKS.sub("", sentence).translate(_STRAIGHT).strip()
    opening = _OPENING.match(plain)
    return _capital(_shortened(plain[opening.end() :] if opening else plain, QUOTE_MAX))


def _sorted(points: Sequence[Point], heard: Sequence[Record]) -> dict[str, list[Point]]:
    """The points grouped by the section of the notes they belong to; each is in one at most."""
    waiting = [*_open(points, heard)]
    order = {message.id: place for place, message in enumerate(heard)}
    settled = sorted(_decided(points, heard), key=lambda point: order[point.message_id])
    decided = [point for point in settled if point not in waiting]
    taken = {point.text for point in (*decided, *waiting)}
    rest = [point for point in points if point.text not in taken and _says_something(point)]
    of_user = [point for point in rest if point.role == "user"]
    return {
        "Decided": decided,
        "Open": waiting,
        "Asked": [point for point in of_user if _asks(point)],
        "Said": [point for point in of_user if not _asks(point)],
        "The assistant": [point for point in rest if _is_told(point)],
    }


def _chosen(found: Mapping[str, Sequence[Point]]) -> dict[str, tuple[Point, ...]]:
    """The most important points of each section, as many as fit, in the order they were said."""
    room = WORDS_MAX - WORDS_AROUND
    chosen: dict[str, tuple[Point, ...]] = {}
    for section, words_max in SECTION_WORDS.items():
        known = Summary(points=tuple(_unlike(found[section])))
        chosen[section] = summaries.fold(known, (), tokens_max=min(words_max, room), count=_words).points
        room -= sum(_words(point.text) for point in chosen[section])
    return chosen


def _unlike(points: Sequence[Point]) -> list[Point]:
    """The best of the points, in order, without those that share most of their words with a better one."""
    kept: dict[int, set[str]] = {}
    for place in sorted(range(len(points)), key=lambda place: -points[place].score)[:WEIGHED_MAX]:
        words = set(terms(points[place].text)) - STOP_WORDS
        if all(len(words & known) < ALIKE * len(words) for known in kept.values()):
            kept[place] = words
    return [points[place] for place in sorted(kept)]


def _decided(points: Iterable[Point], heard: Sequence[Record]) -> Iterator[Point]:
    """What the user decided, and what they agreed to when the assistant offered it."""
    for point in points:
        low = lowered(point.text)
        settled = _DECIDED.search(low) and not _NOT_YET.search(low) and not _asks(point)
        if point.role == "user" and settled and _says_something(point):
            yield point
    for offer, answer in pairwise(heard):
        roles = offer.data["role"], answer.data["role"]
        if roles == ("assistant", "user") and _AGREED.match(lowered(answer.content).strip()):
            *_, last = ("", *(sentence for sentence, _ in summaries.sentences(offer.content)))
            if _OFFER.match(lowered(_quotation(last))):
                text = f"{_quotation(last)} – {_capital(' '.join(answer.content.split()))}"
                yield Point(answer.id, "user", text, AGREED_SCORE, answer.when, lasting=True)


def _open(points: Iterable[Point], heard: Sequence[Record]) -> Iterator[Point]:
    """What the user asked and nobody answered, or put off until later."""
    unanswered = {
        question.id
        for question, answer in pairwise(heard)
        if answer.data["role"] == "assistant"
        and len(answer.content) <= SHORT_ANSWER
        and _NO_ANSWER.search(lowered(answer.content))
    }
    for point in points:
        asked = _asks(point) and (point.open or point.message_id in unanswered)
        if point.role == "user" and (asked or _PENDING.search(lowered(point.text))):
            yield point


def _asks(point: Point) -> bool:
    return point.text.endswith("?") or kind_of(point.text, point.role) == "question"


def _is_told(point: Point) -> bool:
    """Whether the assistant did, promised or stated something: not an opening, a heading or praise."""
    solid = point.lasting or _NUMBER.search(point.text) is not None
    return point.role == "assistant" and solid and point.text.endswith(".") and not _VAGUE.search(lowered(point.text))


def _says_something(point: Point) -> bool:
    words = (word for word in _TOKEN.findall(point.text) if word[0].isalnum() and not _is_dull(word))
    return sum(len(word) // 2 if is_unspaced(word) else 1 for word in words) >= CONTENT_WORDS_MIN


def _weight(quoted: Sequence[Point]) -> float:
    """The importance of the three most important sentences: one remark alone does not make an episode important."""
    weights = sorted((importance(point.text, point.role) for point in quoted), reverse=True)[:3]
    return round(sum(weights) / 3, 4)


# ── How it is worded ─────────────────────────────────────────────────────────────────────────────


def _text(messages: Sequence[Record], topics: Sequence[str], chosen: Mapping[str, Sequence[Point]]) -> str:
    """The notes, one section per line. No quotation has a line break, so none can pass for another section."""
    names = dict.fromkeys(_name_of(message) for message in messages if message.data.get("role") == "user")
    who = _listing([name for name in names if name][:LISTED_MAX]) or "the user"
    about = f"about {_listing(topics)}" if topics else "with the assistant"
    lines = [f"{_period(messages)} {who} talked {about}."]
    for section in SECTIONS:
        if chosen[section]:
            lines.append(f"{section}: {' '.join(f'“{point.text}”' for point in chosen[section])}")
    return "\n".join(lines)


def _name_of(message: Record) -> str:
    return " ".join(str(message.data.get("name") or "").split())


def _period(messages: Sequence[Record]) -> str:
    """The days of a stretch, in words: "On 3 March 2026", "From 3 to 5 March 2026"."""
    times = [as_datetime(message.when) for message in messages]
    first, last = min(times), max(times)
    end = f"{last.day} {last:%B} {last.year}"
    if first.date() == last.date():
        return f"On {end}"
    month = "" if (first.year, first.month) == (last.year, last.month) else f" {first:%B}"
    year = "" if first.year == last.year else f" {first.year}"
    return f"From {first.day}{month}{year} to {end}"


def _listing(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _shortened(text: str, characters_max: int) -> str:
    if len(text) <= characters_max:
        return text
    head = text[: characters_max - 1]
    return f"{head.rpartition(' ')[0] or head}…"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _words(text: str) -> int:
    return len(text.split())


# ── Topics, people, dates ────────────────────────────────────────────────────────────────────────


def _topics(heard: Sequence[Record], people: Sequence[str]) -> list[str]:
    """The user's phrases that the conversation returns to most, each as it was first said."""
    spread: Counter[tuple[str, ...]] = Counter()
    said: dict[tuple[str, ...], str] = {}
    for message in heard:
        by_user = message.data["role"] == "user"
        phrases = dict(_phrases(message.content[:TOPICS_FROM]))
        spread.update(dict.fromkeys(phrases, 3 if by_user else 1))
        if by_user:
            said = phrases | said
    chosen: list[str] = []
    taken = set(terms(" ".join(people)))
    for stems in sorted(said, key=lambda stems: -spread[stems] * TOPIC_LENGTHS[len(stems)]):
        if len(chosen) < TOPICS_MAX and spread[stems] >= TOPIC_MENTIONS and taken.isdisjoint(stems):
            chosen.append(said[stems])
            taken.update(stems)
    return chosen


def _phrases(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Runs of up to three adjacent content words: their stems, and how they were said."""
    run: list[str] = []
    for word in [*_TOKEN.findall(text), "."]:
        if word[0].isalpha() and len(word) > 2 and not is_unspaced(word) and not _is_dull(word):
            run.append(word)
            continue
        for start in range(len(run)):
            for end in range(start + 1, min(start + 3, len(run)) + 1):
                stems = tuple("".join(terms(word)[:1]) for word in run[start:end])
                yield stems, " ".join(run[start:end]).removesuffix("'s").removesuffix("’s")
        run = []


def _is_dull(word: str) -> bool:
    low = word.lower().replace("’", "'")
    return low in _DULL or low in FOREIGN or low.removesuffix("'s") in STOP_WORDS


def _people(users: Iterable[Record]) -> list[str]:
    """The names that users spoke under, and those of the people they mentioned."""
    found: dict[str, None] = {}
    for message in users:
        if name := _name_of(message):
            found[name] = None
        found.update(dict.fromkeys(people(message.content)))
    return [*found][:LISTED_MAX]


def _dates(users: Iterable[Record]) -> list[str]:
    """The days that the user named, as they named them."""
    named = (match.group() for message in users for match in _DATE.finditer(message.content))
    return [*dict.fromkeys(named)][:LISTED_MAX]
