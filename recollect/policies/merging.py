"""When two memories say the same, and how one of them absorbs the other.

Precision first: two records that stay apart cost a little room, two that were wrongly merged cost a
memory. So texts are the same only if neither has a significant word that the other lacks. Nothing is
deleted: the newer record is ended and names the one that it went into, and every merge can be undone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Any

from recollect.policies.patterns import pattern_of
from recollect.policies.retention import is_pinned
from recollect.policies.words import WORD_MAX, terms
from recollect.records import Record, with_data, without_data

COSINE_MIN = 0.93
"""Below this, texts with the same words still differ too often."""

OVERLAP_MIN = 0.8
"""Share of the words that both texts must have. With one additional light word in five they still say the same."""

MERGES_MAX = 20
"""Merges that a record remembers one by one, besides those whose metadata it still has; others are only counted."""

WORDS_KEPT = 4_096
"""How many words have their tokens cached."""

OPENING = 64
"""How many words of two texts are compared before all of them are read: most texts differ among the first."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words that say nothing.
_EMPTY = _set("a an the really very just so quite also too please well oh actually basically simply btw that")
# Words that one text may have and the other lack. All others count: a name, a number, a negation, one more
# thing in a list.
_LIGHT = _set(
    "to of is are am be do does i my it this there here and currently now always definitely truly certainly totally "
    "absolutely indeed together"
)
_NUMBERS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
_ENDINGS = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'s": ""}
_SHORT = {
    "can't": "can not", "cant": "can not", "cannot": "can not", "won't": "will not", "wont": "will not",
    "dont": "do not", "doesnt": "does not", "didnt": "did not", "isnt": "is not", "im": "i am", "ive": "i have",
}  # fmt: skip
_WORD = pattern_of(r"\w{4,}")
_TOKEN = pattern_of(
    r"(?:(?<!\w)-)?[$€£¥]?\d+(?:[.,:/-]\d+)*%?"  # 3  -4.5  $1,000  10:30  2026-01-31  5%
    r"|[^\W\d_]+(?:'[^\W\d_]+)*(?:\+\+|#)?"  # don't  C++
    r"|[<>=+]|[^\w\s\x00-\x7f]"  # signs, emoji
)


def normal(text: str) -> str:
    """The form in which exact duplicates are equal: lower case, single spaces, no full stop at the end.

    A question mark stays: "tea?" is not "tea".

    >>> normal("  I LIKE\\n tea!! ")
    'i like tea'
    """
    # ASCII letters have one form each, and are most of the input.
    folded = text.lower() if text.isascii() else _compatible(_compatible(text).casefold())
    spaced = " ".join(folded.split())
    return spaced.rstrip(" .,;:!。！") or spaced


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def glance(text: str) -> frozenset[str]:
    """A quick look at a text: its longer words, without those that say nothing.

    Texts that say the same in similar words have it in common, and few others do.
    """
    words = _WORD.findall(_compatible(text).casefold())
    return frozenset(word for word in words if word not in _EMPTY and word not in _LIGHT)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a text says: its words in order (stem and ending), and those that could be left out.

    `gist` is the words without light ones: a key for finding texts that say the same. `distinct` is each word once.
    """

    words: tuple[str, ...]
    gist: tuple[str, ...]
    light: frozenset[str]
    asks: bool
    distinct: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Statement:
        """Numbers are written as digits and short forms in full, so that "don't" is "do not"."""
        plain = _plain(text)
        words: list[str] = []
        gist: list[str] = []
        light: set[str] = set()
        for match in _TOKEN.finditer(plain):
            named = match.group()[0].isupper() and match.group() != "I"
            for token, is_light in _read(match.group().lower()):
                words.append(token)
                if not is_light:
                    gist.append(token)
                elif not named:
                    light.add(token)
        asks = "?" in plain or "？" in plain
        return cls(tuple(words), tuple(gist), frozenset(light), asks, frozenset(words))

    def says_the_same(self, other: Statement) -> bool:
        """The same words in the same order, but for a few light ones that only one of the two has."""
        fewer, more = sorted((self.distinct, other.distinct), key=len)
        # From the cheapest check to the dearest: most texts that are alike differ in some word, which settles it.
        return (
            self.asks == other.asks
            and len(fewer) >= OVERLAP_MIN * len(more) > 0
            and fewer <= more
            and more - fewer <= self.light | other.light
            and [word for word in self.words if word in fewer] == [word for word in other.words if word in fewer]
        )


def _plain(text: str) -> str:
    return _compatible(text).replace("’", "'")


def _opening(text: str) -> tuple[str, ...]:
    """The first words that no other text may lack: texts that say the same have them in common, in this order."""
    light = _light_tokens()
    read = (token for match in _TOKEN.finditer(_plain(text)) for token, _ in _read(match.group().lower()))
    return tuple(islice((token for token in read if token not in light), OPENING))


@cache
def _light_tokens() -> frozenset[str]:
    """All tokens that can be light: another word may have the same one, as "being" has that of "be"."""
    return frozenset(_token(word) for word in _LIGHT)


def _read(word: str) -> tuple[tuple[str, bool], ...]:
    """The tokens of a word as it is written, each with whether it could be left out."""
    return _looked_up(word) if len(word) <= WORD_MAX else _tokens(word)


def _tokens(word: str) -> tuple[tuple[str, bool], ...]:
    return tuple((_token(part), part in _LIGHT) for part in _spelled_out(word))


_looked_up = lru_cache(WORDS_KEPT)(_tokens)
"""Long texts that are alike are compared word by word, in all pairs, and have few different words."""


def _spelled_out(word: str) -> list[str]:
    """A word with its short forms written out: "don't" as "do not". Empty words yield nothing."""
    full = _SHORT.get(word, word)
    if full.endswith("n't"):
        full = f"{full[:-3]} not"
    for ending, meaning in _ENDINGS.items():
        if full.endswith(ending):
            full = f"{full.removesuffix(ending)} {meaning}"
    is_sign = not word[0].isalnum() and unicodedata.category(word[0]).startswith("P") and len(word) == 1
    return [] if is_sign else [part for part in full.split() if part not in _EMPTY]


def _token(word: str) -> str:
    """The stem with the mark of the past or the plural: "lived" is not "live", nor "cats" "cat"."""
    if not word[0].isalpha():
        return word.replace(",", "")
    # Search terms are cut short and lose their accents, which is too much where words must be the same.
    stem = terms(word)[0] if word.isascii() and len(word) <= WORD_MAX else word
    mark = "-ed" if word.endswith("ed") else "-s" if word.endswith("s") else ""
    return _NUMBERS.get(word, stem + mark)


class Wording:
    """A text that is compared with others: what that needs is computed once, and lazily."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normal(self) -> str:
        return normal(self.text)

    @cached_property
    def opening(self) -> tuple[str, ...]:
        return _opening(self.text)

    @cached_property
    def statement(self) -> Statement:
        return Statement.of(self.text)

    def is_near(self, other: Wording, cosine: float) -> bool:
        """Whether the two texts, whose embeddings are this close, say the same.

        They need the same numbers, names, negations, tenses and order of words, and almost the same words.

        >>> Wording("I really like green tea").is_near(Wording("I like green tea."), 0.97)
        True
        >>> Wording("I like green tea").is_near(Wording("I don't like green tea"), 0.97)
        False
        """
        if not cosine >= COSINE_MIN:
            return False
        if self.normal == other.normal:
            return True
        # Reading a long text takes tens of milliseconds, its beginning almost nothing.
        return self.opening == other.opening and self.statement.says_the_same(other.statement)


class Wordings(dict[str, Wording]):
    """The texts of many comparisons, each of them read once."""

    def __missing__(self, text: str) -> Wording:
        self[text] = Wording(text)
        return self[text]


@dataclass(frozen=True, slots=True)
class Merge:
    """What the surviving record remembers of one merge: enough to explain it and to undo it.

    `importance` and `confidence` are those of the absorbed record, `added` the names of the
    metadata that came from it, `clashes` those where both had a value and the older one stayed.
    """

    id: str
    similarity: float
    at: int
    reason: str
    importance: float
    confidence: float
    added: tuple[str, ...] = ()
    clashes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The merge as JSON."""
        return {**asdict(self), "added": list(self.added), "clashes": list(self.clashes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Merge:
        """The merge restored from its JSON."""
        return cls(**{**data, "added": tuple(data["added"]), "clashes": tuple(data["clashes"])})


# What merges write into `data`: of the record that stays, and of the one that ends. `before_merges` has the
# record's own importance and confidence, `before_merge` what the end has overwritten.
_OF_OLDER = ("merged", "merged_count", "before_merges")
OF_MERGED = ("merged_into", "reason", "before_merge")
"""What the data of a record says that was merged into another."""
KEPT_APART = "kept_apart"
"""In the data of a record: somebody undid its merge, so it is not merged into another one again."""


def merges_of(record: Record) -> tuple[Merge, ...]:
    """The merges that a record remembers, oldest first."""
    return tuple(map(Merge.from_data, record.data.get("merged", ())))


def merged(
    older: Record, newer: Record, *, similarity: float, now: int, reason: str = "nearly the same text"
) -> tuple[Record, Record]:
    """The older record with what the newer one adds, and the newer one, ended. Write both in one commit.

    The higher importance and confidence count. Metadata are joined; where both have a value the
    older one's stays and the clash is noted.
    """
    if older.id == newer.id:
        raise ValueError("a record cannot be merged into itself")
    merge = _merge_of(older, newer, similarity, now, reason)
    merges = (*merges_of(older), merge)
    count = older.data.get("merged_count", 0) + 1
    own = older.data.get("before_merges") or {"importance": older.importance, "confidence": older.confidence}
    metadata = {**newer.metadata, **older.metadata}
    remembered = tuple(
        each
        for place, each in enumerate(merges, start=1)
        if place > len(merges) - MERGES_MAX or not metadata.keys().isdisjoint(each.added)
    )
    own = _highest(own, tuple(each for each in merges if each not in remembered))
    kept = _with_merges(older, remembered, count, own).with_(
        importance=max(older.importance, newer.importance),
        confidence=max(older.confidence, newer.confidence),
        metadata=metadata,
    )
    return kept, _ended(newer, older.id, merge.reason, now)


def can_stand_for(older: Record, newer: Record) -> bool:
    """Whether nothing is lost when the newer one ends: the older is equally trusted, and does not expire sooner.

    A pinned record stays by itself: it neither ends nor absorbs others, which would be forgotten with it. One
    whose merge was undone does not end again.
    """
    lives_as_long = older.expires_at is None or (newer.expires_at is not None and newer.expires_at <= older.expires_at)
    stays = is_pinned(older) or is_pinned(newer) or newer.data.get(KEPT_APART)
    return older.trust == newer.trust and lives_as_long and not stays


def _merge_of(older: Record, newer: Record, similarity: float, now: int, reason: str) -> Merge:
    ours, theirs = older.metadata, newer.metadata
    same = normal(older.content) == normal(newer.content)
    return Merge(
        id=newer.id,
        similarity=round(similarity, 4),
        at=now,
        reason="the same text" if same else reason,
        importance=newer.importance,
        confidence=newer.confidence,
        added=tuple(sorted(theirs.keys() - ours.keys())),
        clashes=tuple(sorted(key for key in theirs.keys() & ours.keys() if theirs[key] != ours[key])),
    )


def _highest(own: Mapping[str, float], merges: tuple[Merge, ...]) -> dict[str, float]:
    """The record's own importance and confidence, or those that a merge brought, if they are higher."""
    return {name: max([value, *(getattr(merge, name) for merge in merges)]) for name, value in own.items()}


def _with_merges(record: Record, merges: tuple[Merge, ...], count: int, own: Mapping[str, float]) -> Record:
    """The record with these merges in its data, or with no trace of any when there are none."""
    bare = without_data(record, *_OF_OLDER)
    if not count:
        return bare
    told = [merge.to_data() for merge in merges]
    return with_data(bare, merged=told, merged_count=count, before_merges=dict(own))


def _ended(record: Record, into: str, reason: str, now: int) -> Record:
    own = {
        "valid_to": record.valid_to,
        "data": {key: record.data[key] for key in OF_MERGED if key in record.data},
    }
    data = {**record.data, "merged_into": into, "reason": reason, "before_merge": own}
    return record.with_(data=data, valid_to=now)


def unmerged(older: Record, newer: Record) -> tuple[Record, Record]:
    """Both records as they were before the merge. What others changed since then stays.

    When the older one has forgotten the details (see `MERGES_MAX`), it keeps what it took.
    """
    if newer.data.get("merged_into") != older.id:
        raise ValueError("these two records were not merged")
    return without_merge(older, newer), _revived(newer)


def without_merge(older: Record, newer: Record) -> Record:
    """The older record without what the newer one gave to it; unchanged if it remembers nothing of that."""
    merges = merges_of(older)
    undone = next((merge for merge in reversed(merges) if merge.id == newer.id), None)
    if undone is None:
        return older
    rest = tuple(merge for merge in merges if merge is not undone)
    own = older.data["before_merges"]
    was, now = _highest(own, merges), _highest(own, rest)
    values = {name: now[name] for name in now if getattr(older, name) == was[name]}
    gone = {key for key in undone.added if key in newer.metadata and older.metadata.get(key) == newer.metadata[key]}
    metadata = {key: value for key, value in older.metadata.items() if key not in gone}
    return _with_merges(older, rest, older.data["merged_count"] - 1, own).with_(metadata=metadata, **values)


def without_given(older: Record, by: str, metadata: Mapping[str, Any]) -> Record:
    """A record without these metadata, as far as they came from one that was merged into it."""
    given = next((merge for merge in reversed(merges_of(older)) if merge.id == by), None)
    gone = {key for key in given.added if key in metadata and older.metadata.get(key) == metadata[key]} if given else ()
    if not gone:
        return older
    merges = tuple(
        replace(merge, added=tuple(key for key in merge.added if key not in gone)) if merge is given else merge
        for merge in merges_of(older)
    )
    left = {key: value for key, value in older.metadata.items() if key not in gone}
    data = {**older.data, "merged": [merge.to_data() for merge in merges]}
    return older.with_(metadata=left, data=data)


def _revived(newer: Record) -> Record:
    own = newer.data["before_merge"]
    return with_data(without_data(newer, *OF_MERGED), **own["data"]).with_(valid_to=own["valid_to"])
