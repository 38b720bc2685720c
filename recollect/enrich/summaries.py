"""Summaries without a model: the sentences that matter, as they were said.

A summary is a list of points. Each is a verbatim sentence (or clause) of one message and names that message.
`fold` continues a summary with the messages that came after it and never needs the older ones again:
what was kept competes with what is new, and loses a little of its score each time, so that the
trivial makes room while names, decisions, preferences and dates stay for a long time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recollect.policies.importance import explain_importance
from recollect.policies.merging import Statement
from recollect.policies.patterns import pattern_of
from recollect.policies.trimming import stops_of_ordinals
from recollect.policies.words import LETTERS
from recollect.records import Record

SCORE_MIN = 0.2
"""A sentence below this does not become a point even if there is room: it would only dilute the rest."""

TEXT_MAX = 20_000
"""Maximum characters read of a message. What lies beyond is logs and pasted documents."""

POINT_MAX = 280
"""Maximum characters in a point. A longer sentence is cut into clauses."""

LONG_ANSWER = 400
"""From this many characters on, the first sentence of an answer often sums it up."""

DECAY = 0.9
"""The share of its score that a point keeps at each fold: half after seven."""

LASTING_DECAY = 0.985
"""The same for decisions, preferences, duties, names, dates and amounts: half after 45 folds."""

ADDITIONS: dict[str, tuple[float, str]] = {
    "first": (0.10, "the first sentence of a long answer sums it up"),
    "commitment": (0.10, "people ask later what the assistant did or will do"),
    "open": (0.25, "a question of the user that nobody has answered yet"),
    "waiting": (0.12, "a question of the assistant that the user has not answered yet"),
    "detail": (-0.10, "one line of a list in an answer"),
    "dangling": (-0.08, 'a beginning like "it" or "then" is hard to understand alone'),
}
"""What a sentence of a conversation gains or loses on top of its importance, and why."""

_LASTING = frozenset({"decision", "identity", "preference", "obligation", "name", "date", "unit", "emphasis"})
_LASTING_ANSWER = frozenset({"decision", "commitment"})
_COMMITMENT = pattern_of(
    r"\b(?:i'll|i will|i(?:'ve| have) (?:booked|sent|added|created|scheduled|updated|set)|we agreed|as agreed)\b"
)
_DANGLING = pattern_of(r"(?:it|its|it's|this|that|these|those|they|then|he|she|also|and|but|or|so|which)\b")
_FENCE = pattern_of(r"\s{0,12}(?:```|~~~)")
_SIGN = pattern_of(rf"[^{LETTERS} *]")
_MARKER = pattern_of(r"\s{0,40}(?:(?:[-*+•>]|#{1,6}|\d{1,3}[.)])\s{1,8}){1,3}")
_WIDE_STOP = pattern_of(r"(?<=[。！？។။])")
_WORD = pattern_of(r"\S+")
_STOPS = (*".!?…。！？", *"؟۔।॥።։។။")
_OPENING = "\"'“‘([*_"
_CLOSING = "\"'”’)]*_"
_ABBREVIATIONS = frozenset({"dr.", "mr.", "mrs.", "ms.", "prof.", "st.", "e.g.", "i.e.", "vs.", "approx.", "no."})


@dataclass(frozen=True, slots=True)
class Point:
    """One sentence that is kept: whose it is, how much it matters by now, and when it was said."""

    message_id: str
    role: str
    text: str
    score: float
    at: int
    lasting: bool = False
    open: bool = False

    @property
    def label(self) -> str:
        """The label that precedes it in the notes."""
        return "Open question" if self.open else self.role.capitalize()


@dataclass(frozen=True, slots=True)
class Summary:
    """Notes on a stretch of conversation: their text, and its points in the order they were said."""

    text: str = ""
    points: tuple[Point, ...] = ()


def to_data(summary: Summary) -> dict[str, Any]:
    """The summary as JSON."""
    return {"points": [asdict(point) for point in summary.points]}


def from_data(data: Mapping[str, Any]) -> Summary:
    """The summary restored from its JSON, exactly as it was."""
    return _summary(Point(**point) for point in data.get("points", ()))


def fold(
    previous: Summary | None, messages: Sequence[Record], *, tokens_max: int, count: Callable[[str], int]
) -> Summary:
    """The summary continued with these messages, never above `tokens_max`.

    Only what the user and the assistant said is read: instructions come back by themselves, and what
    a tool found is in the answer. Quarantined messages are left out.
    """
    heard = [
        message
        for message in messages
        if message.data.get("role") in ("user", "assistant") and message.trust != "quarantined"
    ]
    last = {message.data["role"]: place for place, message in enumerate(heard)}
    points = [*previous.points] if previous else []
    if heard:
        points = [_aged(point, answered=_other(point.role) in last) for point in points]
    for place, message in enumerate(heard):
        points += _points(message, answered=last.get(_other(message.data["role"]), -1) > place)
    return _summary(_fitting(_without_repeats(points), tokens_max, count))


def _summary(points: Iterable[Point]) -> Summary:
    kept = tuple(points)
    return Summary(_notes(kept), kept)


def _notes(points: Iterable[Point]) -> str:
    """One line per run of points with the same label. A point has no line break, so none can pass for another's."""
    lines: list[tuple[str, str]] = []
    for point in points:
        if lines and lines[-1][0] == point.label:
            said = lines.pop()[1]
            joint = " " if said.rstrip(_CLOSING).endswith(_STOPS) else "; "
            lines.append((point.label, f"{said}{joint}{point.text}"))
        else:
            lines.append((point.label, point.text))
    return "\n".join(f"{label}: {said}" for label, said in lines)


def _other(role: str) -> str:
    return "assistant" if role == "user" else "user"


def _aged(point: Point, *, answered: bool) -> Point:
    """The point one fold later. A question that was answered is an ordinary sentence again."""
    score = point.score * (LASTING_DECAY if point.lasting else DECAY)
    if point.open and answered:
        score -= ADDITIONS["open" if point.role == "user" else "waiting"][0]
    return replace(point, score=round(max(score, 0.0), 4), open=point.open and not answered)


def _points(message: Record, *, answered: bool) -> Iterator[Point]:
    """The sentences of a message that are worth a point."""
    role = message.data["role"]
    for place, (sentence, listed) in enumerate(sentences(message.content)):
        signs = explain_importance(sentence, role)
        asks = "question" in signs and not answered
        signs |= {name: ADDITIONS[name][0] for name in _additions(message, sentence, place, listed, asks)}
        score = round(sum(signs.values()), 4)
        if score >= SCORE_MIN:
            lasting = bool(signs.keys() & (_LASTING if role == "user" else _LASTING_ANSWER))
            yield Point(message.id, role, sentence, score, message.when, lasting and "question" not in signs, asks)


def _additions(message: Record, sentence: str, place: int, listed: bool, asks: bool) -> Iterator[str]:
    low = sentence.lower().replace("’", "'")
    if _DANGLING.match(low):
        yield "dangling"
    if message.data["role"] == "user":
        if asks:
            yield "open"
        return
    if asks:
        yield "waiting"
    if _COMMITMENT.search(low):
        yield "commitment"
    if listed:
        yield "detail"
    if place == 0 and len(message.content) >= LONG_ANSWER:
        yield "first"


def _without_repeats(points: Iterable[Point]) -> list[Point]:
    """Each thing once, where it was said first, with the higher score of the two."""
    kept: list[Point] = []
    known: dict[tuple[str, ...], list[tuple[Statement, int]]] = {}
    for point in points:
        statement = Statement.of(point.text)
        alike = known.setdefault(statement.gist, [])
        place = next((place for other, place in alike if other.says_the_same(statement)), None)
        if place is None:
            alike.append((statement, len(kept)))
            kept.append(point)
        elif point.score > kept[place].score:
            kept[place] = replace(kept[place], score=point.score)
    return kept


def _fitting(points: Sequence[Point], tokens_max: int, count: Callable[[str], int]) -> list[Point]:
    """The best points that fit, in the order they were said; of two equal ones, the newer."""
    best_first = sorted(range(len(points)), key=lambda place: (-points[place].score, -place))
    chosen: list[int] = []
    room = tokens_max
    for place in best_first:
        cost = count(f"{points[place].label}: {points[place].text}\n")
        if cost <= room:
            chosen.append(place)
            room -= cost
    # Tokens of the parts need not add up to those of the whole, so the whole is counted too.
    while chosen and count(_notes(points[place] for place in sorted(chosen))) > tokens_max:
        chosen.pop()
    return [points[place] for place in sorted(chosen)]


def sentences(text: str) -> Iterator[tuple[str, bool]]:
    """The sentences of a text, and whether each is in a list. Code and tables are left out.

    Time is linear in the length of the text, whatever it is. Long sentences are split into clauses.
    """
    in_code = False
    for line in text[:TEXT_MAX].splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            marker = _MARKER.match(line)
            body = line[marker.end() :] if marker else line
            listed = marker is not None and "#" not in marker.group() and ">" not in marker.group()
            for part in _WIDE_STOP.split(body):
                for sentence in _spaced_sentences(part):
                    yield from ((clause, listed) for clause in _clauses(sentence) if _is_prose(clause))


def _spaced_sentences(line: str) -> Iterator[str]:
    start = None
    ordinals = stops_of_ordinals(line)
    for match in _WORD.finditer(line):
        start = match.start() if start is None else start
        if match.end() - 1 not in ordinals and _ends_sentence(match.group()):
            yield line[start : match.end()]
            start = None
    if start is not None:
        yield line[start:]


def _ends_sentence(word: str) -> bool:
    bare = word.strip(_CLOSING + _OPENING)
    is_initial = len(bare) == 2 and bare[0].isupper()
    return bare.endswith(_STOPS) and bare.lower() not in _ABBREVIATIONS and not is_initial


def _clauses(sentence: str) -> Iterator[str]:
    """A sentence in pieces of at most `POINT_MAX` characters, cut at a comma or the like where there is one."""
    rest = sentence.strip()
    while len(rest) > POINT_MAX:
        head = rest[:POINT_MAX]
        comma = max(head.rfind(mark) for mark in (", ", "; ", ": ", " - ", " – ", " — "))
        cut = comma if comma > POINT_MAX // 3 else head.rfind(" ")
        cut = cut + 1 if cut > 0 else POINT_MAX
        yield rest[:cut].strip()
        rest = rest[cut:].lstrip()
    if rest:
        yield rest


def _is_prose(text: str) -> bool:
    """Whether it is prose, not a line of code, a table, a rule or a key: mostly letters, digits and spaces."""
    if (
        text.endswith(("{", "}", ";"))
        or text.startswith("|")
        or (len(text) > 60 and text.isascii() and " " not in text)
    ):
        return False
    plain = len(text) - len(_SIGN.findall(text))
    return plain >= 0.75 * len(text) and any(character.isalpha() for character in text)
