"""What callers were told, written down: from this follows what must be found, what may be, and what must not.

Every text holds a word that nobody else uses, so any answer shows by itself whose texts it holds. A text that was
stored must be there from then on, until something that covers it begins; a text that was forgotten must be in no
answer to a call made afterwards. What is under way at the same time may be seen or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from recollect.records import Partition
from recollect.testing.lessons import NAME, name_of
from recollect.testing.simulation.world import LATE_S

LATE = 2 * LATE_S
"""How long after a call has failed it may still be done."""
WORD = re.compile(rf"{NAME.pattern}|\bqz[a-j]+zq\b")
_DIGITS = str.maketrans("0123456789", "abcdefghij")
NEVER = float("inf")

SHOWN = frozenset({"search", "context", "window"})
"""Where nothing is seen of what was set aside."""


OWN = frozenset({"messages", "list", "state"})
"""Where only the texts themselves are seen."""


def words_in(answer: Any) -> set[str]:
    """The words in an answer, whatever it is."""
    return set(WORD.findall(answer if isinstance(answer, str) else json.dumps(answer, default=_plain)))


def _plain(value: Any) -> Any:
    to_dict = getattr(value, "to_dict", None)
    return to_dict() if to_dict is not None else repr(value)


@dataclass(slots=True, eq=False)
class Removal:
    """A call that removes texts, or sets them aside: from `began` on they may be gone, after `ended` they must be."""

    what: str
    covers: Callable[[Text], bool]
    began: float
    ended: float = NEVER
    lifted: float = NEVER
    """When something began that may bring them back."""
    places: frozenset[str] | None = None
    """Where they must not be seen; None is everywhere."""

    lasting: bool = False
    """Whether texts that are stored later may be covered too."""
    tries: int = 0
    """How often it was called. If it was interrupted, a job takes back what was still being learned meanwhile: the
    text itself is gone when a later call returns, but what it taught goes when that job is done."""

    def covers_from(self, place: str) -> bool:
        return self.places is None or place in self.places

    def is_done(self, asked: float, answered: float, place: str) -> bool:
        """Whether a call made in this time must no longer see anything of what it removes."""
        done = self.ended < asked and answered < self.lifted
        return done and self.covers_from(place) and (self.tries <= 1 or place in OWN)


@dataclass(slots=True, eq=False)
class Text:
    """A text that a caller asked to be stored, perhaps in several copies."""

    word: str
    owner: Partition
    layer: str
    writer: int
    began: float
    session: str = ""
    id: str = ""
    of: str = ""
    """The key or the id under which it is kept, where there is one text after the other."""
    acked: float = NEVER
    settled: float = NEVER
    """When it was certain that it had been stored, or never would be."""
    removals: list[Removal] = field(default_factory=list)
    copies: dict[str, Text] = field(default_factory=dict)
    """Its copies in branches, by session."""

    def must_be_seen(self, asked: float, answered: float, place: str) -> bool:
        """Whether an answer to a call made in this time must hold it."""
        if self.acked > asked:
            return False
        return not any(
            each.covers_from(place) and each.began <= answered and (each.lasting or self.began < each.ended + LATE)
            for each in self.removals
        )

    def must_be_gone(self, asked: float, answered: float, place: str) -> Removal | None:
        """The removal because of which no answer to a call made in this time may hold it, or a copy of it."""
        gone = self._removed(asked, answered, place)
        copies = [each._removed(asked, answered, place) for each in self.copies.values()]
        return gone if gone is not None and None not in copies else None

    def _removed(self, asked: float, answered: float, place: str) -> Removal | None:
        for each in self.removals:
            if self.settled < each.began and each.is_done(asked, answered, place):
                return each
        return None


class Paper:
    """All texts of a world, and what is wrong with what was seen of them."""

    def __init__(self) -> None:
        self.texts: dict[str, Text] = {}
        self.wrong: list[str] = []
        self._count = 0
        self._removals: list[Removal] = []

    def word(self) -> str:
        """A word for a memory, a fact or a state."""
        self._count += 1
        return f"qz{str(self._count).translate(_DIGITS)}zq"

    def friend(self, writer: int) -> str:
        """The name of a friend, for a message that teaches it."""
        self._count += 1
        return name_of(f"L0W{writer}N{self._count}P0")

    def write(self, text: Text) -> Text:
        """Write down a text that is about to be stored; what is being removed meanwhile may remove it too."""
        known = self.texts.setdefault(text.word, text)
        if known is not text:
            known.copies[text.session] = text
        self._removals = [each for each in self._removals if each.lasting or text.began < each.ended + LATE]
        text.removals += [each for each in self._removals if each.covers(text)]
        return text

    def of(self, owner: Partition, *layers: str, session: str | None = None) -> Iterator[Text]:
        """The texts of an owner, in these layers."""
        for text in self.texts.values():
            if text.owner == owner and (not layers or text.layer in layers) and session in (None, text.session):
                yield text

    def remove(self, removal: Removal) -> Removal:
        """Note that a call is about to remove all texts that it covers, and copies."""
        self._removals.append(removal)
        for text in self.texts.values():
            for each in (text, *text.copies.values()):
                if removal.covers(each):
                    each.removals.append(removal)
        return removal

    def settle(self) -> None:
        """Note that all work is done: nothing is left of what was interrupted."""
        for text in self.texts.values():
            for removal in (each for said in (text, *text.copies.values()) for each in said.removals):
                removal.tries = 1

    def look(self, answer: Any, viewer: Partition, place: str, asked: float, answered: float) -> set[str]:
        """Check an answer for what must not be in it. Returns the words it holds."""
        found = words_in(answer)
        for word in sorted(found):
            text = self.texts.get(word)
            if text is None:
                self.wrong.append(f"{word} is in the {place} of {viewer}, and nobody has said it")
            elif text.owner not in (viewer, Partition(viewer.org, "")):
                self.wrong.append(f"{word} of {text.owner} is in the {place} of {viewer}")
            elif (gone := text.must_be_gone(asked, answered, place)) is not None:
                self.wrong.append(f"{word} is in the {place} of {viewer.user}, after {gone.what}")
        return found

    def expect(self, found: Collection[str], texts: Iterable[Text], place: str, asked: float, answered: float) -> None:
        """Check an answer for what must be in it."""
        for text in texts:
            if text.must_be_seen(asked, answered, place) and text.word not in found:
                self.wrong.append(f"{text.word} ({text.layer}) is missing in the {place} of {text.owner.user}")

    def in_order(self, words: Iterable[str], where: str) -> None:
        """Check that what was stored before something else was asked for comes before it, and each only once."""
        seen: list[Text] = []
        for word in words:
            text = self.texts.get(word)
            if text is None:
                continue
            if text in seen:
                self.wrong.append(f"{word} is twice in {where}")
            elif late := next((each for each in seen if text.acked < each.began), None):
                self.wrong.append(f"{word} comes after {late.word} in {where}, and was stored before")
            seen.append(text)
