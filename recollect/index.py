"""One partition in memory: its words, vectors and heads, kept current by revision.

Each searched record has a row: the record itself is in `shelf.py`, its words are in `postings.py` and its vector in
`vectors.py`. The other records that queries and contexts need are held by id, as heads. Before each use `indexes.py`
asks the store what changed since the index's mark, and applies it here. So ranking is the same code with the same
result on every store, and a store only has to keep records.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.arrangement import Arrangement
from recollect.kept_words import KeptWords, Messages, read_with
from recollect.kinship import Kinship
from recollect.layers import FACT_LAYERS, LAYERS, SEARCHED_LAYERS, is_current
from recollect.pace import apart
from recollect.policies import scoring
from recollect.policies.dates import Span, span_of
from recollect.policies.keys import KEYS
from recollect.policies.quarantine import ASIDE, is_aside
from recollect.policies.scoring import Scores, Talk
from recollect.postings import Told, Vocabulary, Words, vocabulary
from recollect.providers import floats
from recollect.records import HOUR_MS, Born, Record, Scope, Vector
from recollect.shelf import Shelf
from recollect.stores.contract import Delta, Mark
from recollect.vectors import ROWS, Vectors, at_once, grown

TOLD_ROWS = 512
"""How many of the best rows by words are compared by meaning, even if the index beside the store did not name them."""
WASTED_ROWS = 1_000
"""Rows that an index may hold in vain: rebuilding it for fewer does not pay."""
HEAD_BYTES = 1_600
"""Approximate memory for a record that is not searched."""
LINE_BYTES = 1_000
"""Approximate memory for a line of the notes, with its records."""
TIME_BYTES = 250
"""Approximate memory for the time that the text of a row names."""
INDEX_BYTES, ROW_BYTES = 5_000, 130
"""Approximate memory for an empty index, and for the id of a row and its place in a session."""
UNHELD_LAYERS = ("past", "failure", "seal")
"""Layers that are only ever read by id or listed: no query and no context needs them."""

SEARCHED = frozenset(SEARCHED_LAYERS)
OF_SESSIONS = tuple(name for name in SEARCHED_LAYERS if "session" in LAYERS[name].scope and name != "conversation")
"""Searched layers, besides messages, whose records belong to a session."""
NEVER = 2**63 - 1
GONE = -1
"""The layer number of a row whose record is gone, or has another row by now."""
PLACE_BITS = 16
"""Bits for the place of a birth in its commit, which holds a hundred or so."""

READ_ROWS, READ_CHARACTERS, ENCODED_ROWS = 500, 100_000, 5_000
"""Rows whose words are read, how long their texts may be together, and rows whose vectors are encoded, before yielding
to other tasks.
"""
LONG_CHARACTERS, LONG_ASCII = 6_000, 20_000
"""From this length on, a text may have so many words that numbering them takes too long between two waits."""
KEPT_CHARACTERS, KEPT_SHARE = 1_000_000, 8
"""How much must have been read anew for it to be worth keeping, and that this is more than one part in so many: reading
a million characters takes a tenth of a second, and everything is kept anew each time.
"""
MERGED = 200
"""Words that are merged in the time that one unit of work takes."""
LIKE_ROWS = 8
"""From this many rows of each model on, the scores of two models are brought to one scale."""

_NO_ROWS = array("I")


class Activity(NamedTuple):
    """How many living messages a session has, and the time of the latest one."""

    session: str
    messages: int
    last_at: int


@dataclass(frozen=True, slots=True)
class Notes:
    """Lines built from some layers, the further records that each line stands for, and when they are valid."""

    lines: Sequence[Record]
    also: Mapping[str, Sequence[Record]]
    news: tuple[int, ...]
    since: int
    until: int


class PartitionIndex:
    """The contents of one partition, ready to be queried. Rows never move; dead ones are skipped."""

    def __init__(self, model: str, dimensions: int, language: str, earlier_model: str = "") -> None:
        self.mark: Mark | None = None
        self.vectors = Vectors(dimensions)
        self.records = Shelf(model, self.vectors.data_of)
        """The record of each row."""
        self.row_of: dict[str, int] = {}
        self.heads: dict[str, Record] = {}
        self._heads_of: dict[str, dict[str, None]] = {}
        self._unheld: set[str] = set()
        self.past: dict[str, int] = {}
        """The version of each record of the layer `past`: a caller that caches some of them sees here what changed."""
        self.sessions: dict[str, array[int]] = {}
        """The rows of each session, in order of birth."""
        self._born = array("q")
        self._closed: set[str] = set()
        self.pending: dict[int, None] = {}
        self.counted_nbytes = self.counted_opened = 0
        self.model = model
        # Vectors of the previous model, until they are embedded again: each model has its own space.
        self._earlier_model = earlier_model
        self._earlier = Vectors(0)
        self._earlier_rows: dict[int, None] = {}
        self._read_here: dict[int, None] = {}
        self.other_models: set[str] = set()
        self.language = language
        self._words = Words(vocabulary(language))
        self.kinship = Kinship(language)
        self._alive: NDArray[np.bool_] = np.zeros(ROWS, np.bool_)
        self._importance: NDArray[np.float32] = np.zeros(ROWS, np.float32)
        self._when: NDArray[np.int64] = np.zeros(ROWS, np.int64)
        self._layers: dict[str, int] = {}
        self._layer: NDArray[np.int16] = np.zeros(ROWS, np.int16)
        self._until: NDArray[np.int64] = np.zeros(ROWS, np.int64)
        self._length = array("I")
        self._characters = self._unkept = 0
        # Nothing ends between these two times.
        self._steady = NEVER, 0
        self._masks: dict[tuple[str, ...], tuple[NDArray[np.bool_], bool]] = {}
        self._prior: tuple[int, Scores] | None = None
        self._talk: Talk | None = None
        self._times_told: dict[int, Span | None] = {}
        # Nothing here refers back to the index, so that an evicted one is freed at once, with everything it held.
        self._arrangement = Arrangement(self.sessions, partial(_is_held, self.records.ids, self.row_of), language)
        self._first_asked: int | None = None
        self._removed = self._ended = 0
        self.notes: Notes | None = None
        """What was built from some layers for the last question, while it is valid."""
        self.keep_again_at_s = 0.0
        """When what was read of it may be kept again."""
        self.laid_aside: object = None
        """Its `state` when it was last spilled to a file."""
        self.lacks_news = False
        """Whether the store dropped records that it may still hold."""

    # ── catching up ──────────────────────────────────────────────────────────────────────────────

    def apply(self, delta: Delta) -> None:
        """Apply a page of changes."""
        self._forget_answers()
        for id in delta.dropped:
            self._remove(id)
        if delta.dropped:
            self.lost_kept()
        # By birth, whatever order the store reports a commit in, so that equal scores rank the same everywhere.
        told = sorted(delta.put, key=attrgetter("born"))
        # Heads first: the head of a session says whether its messages may be found.
        for record in told:
            if record.layer not in SEARCHED:
                self._hold(record)
        new: list[Record] = []
        again: dict[int, Record] = {}
        for record in told:
            if record.layer in SEARCHED:
                row = self._row_for(record)
                if row is None:
                    new.append(record)
                else:
                    again[row] = record
        self._fill(again)
        self._add(new)
        self.vectors.make_room(len(self.records), more=delta.more)
        self.mark = delta.mark

    def _hold(self, record: Record) -> None:
        """Add a record that is not searched."""
        if record.layer in UNHELD_LAYERS:
            self._unheld.add(record.id)
            if record.layer == "past":
                self.past[record.id] = record.version
            return
        self._heads_of.setdefault(record.layer, {})[record.id] = None
        self.heads[record.id] = record
        if record.layer == "session":
            self._set_closed(record.scope.session, ASIDE in record.data)

    def _set_closed(self, session: str, closed: bool) -> None:
        """Note whether a session is set aside. What is said in it meanwhile can be found once it no longer is."""
        if closed != (session in self._closed):
            (self._closed.add if closed else self._closed.discard)(session)
            self._fill({row: self.records[row] for row in (*self.sessions.get(session, ()), *self._views_of(session))})

    def _views_of(self, session: str) -> list[int]:
        """The rows of what was made of a session, its episodes: whoever hides the messages may stop before these."""
        numbers = [self._layers[name] for name in OF_SESSIONS if name in self._layers]
        rows: list[int] = np.flatnonzero(np.isin(self._layer[: len(self.records)], numbers)).tolist()
        return [row for row in rows if self.records[row].scope.session == session]

    def _row_for(self, record: Record) -> int | None:
        """The row that a record keeps; None if it needs a new one: it is new, its text changed, or it came back."""
        row = self.row_of.get(record.id)
        if row is None:
            return None
        known = self.records[row]
        if known.told == record.told and known.born == record.born:
            return row
        self._remove(record.id)
        return None

    def _add(self, records: Sequence[Record]) -> None:
        """Append a row for each of these records."""
        if not records:
            return
        first, end = len(self.records), len(self.records) + len(records)
        self._make_rows(end)
        rows, ids = range(first, end), [record.id for record in records]
        self.records.extend(ids)
        self.row_of.update(zip(ids, rows, strict=True))
        numbers = self._layers
        self._layer[first:end] = [numbers.setdefault(record.layer, len(numbers)) for record in records]
        self._born.extend([_packed(record.born) for record in records])
        lengths = [len(record.content) for record in records]
        self._length.extend(lengths)
        self._characters += sum(lengths)
        for row, record in zip(rows, records, strict=True):
            if record.layer == "conversation":
                self._place(row, self.sessions.setdefault(record.scope.session, array("I")))
        self._fill(dict(zip(rows, records, strict=True)))

    def _place(self, row: int, session: array[int]) -> None:
        """Insert a row among those of its session, in order of birth; usually it is the last."""
        if not session or self._born[session[-1]] <= self._born[row]:
            session.append(row)
        else:
            insort(session, row, key=self._born.__getitem__)

    def _make_rows(self, size: int) -> None:
        if size > len(self._alive):
            self._alive, self._importance, self._when, self._layer, self._until = (
                grown(each, size) for each in (self._alive, self._importance, self._when, self._layer, self._until)
            )

    def _fill(self, filled: Mapping[int, Record]) -> None:
        """Write records into their rows, in bulk: each step costs about as much for one record as for many."""
        if not filled:
            return
        rows, records = list(filled), list(filled.values())
        places = at_once(rows)
        if self._times_told:
            for row in rows:
                self._times_told.pop(row, None)
        self._alive[places] = [self._is_findable(record) for record in records]
        self._importance[places] = [record.importance for record in records]
        self._when[places] = [record.when for record in records]
        self._until[places] = [_end(record) for record in records]
        vectors = [record.vector for record in records]
        damaged = self._put_vectors(rows, vectors)
        known = [vector is not None and vector.model == self.model for vector in vectors]
        if damaged:
            known = [each and row not in damaged for row, each in zip(rows, known, strict=True)]
        in_matrix = [each and self.vectors.fits(vector) for vector, each in zip(vectors, known, strict=True)]
        self.records.put(rows, records, in_matrix)
        for row, record, has_meaning in zip(rows, records, known, strict=True):
            if has_meaning or not record.content or not LAYERS[record.layer].embedded:
                self.pending.pop(row, None)
            else:
                self.pending[row] = None

    def _put_vectors(self, rows: Sequence[int], vectors: Sequence[Vector | None]) -> Sequence[int]:
        """Store the vectors of these rows, each in the space of its model. Returns the rows with damaged vectors."""
        own = [each if each is not None and each.model == self.model else None for each in vectors]
        damaged = self.vectors.put(rows, own)
        if self._read_here or self._earlier_rows or own != vectors:
            self._put_others(rows, vectors)
        return damaged

    def _put_others(self, rows: Sequence[int], vectors: Sequence[Vector | None]) -> None:
        """The same for vectors of other models, and for rows that had one."""
        for row, vector in zip(rows, vectors, strict=True):
            self._read_here.pop(row, None)
            if vector is None or vector.model == self.model:
                self._forget_earlier(row)
                continue
            self.other_models.add(vector.model)
            if vector.model == self._earlier_model:
                self._earlier.put([row], [vector])
                self._earlier_rows[row] = None
            else:
                self._forget_earlier(row)

    def _forget_earlier(self, row: int) -> None:
        if row in self._earlier_rows:
            self._earlier.put([row], [None])
            del self._earlier_rows[row]

    def read(self, row: int, vector: Vector | None) -> None:
        """Give a pending row its vector, in this index only: the store gets it from the worker."""
        self.vectors.put([row], [vector])
        self._read_here[row] = None
        self._forget_earlier(row)
        self.pending.pop(row, None)

    def _remove(self, id: str) -> None:
        self._unheld.discard(id)
        self.past.pop(id, None)
        row = self.row_of.pop(id, None)
        gone = self.heads.pop(id, None) if row is None else self.records[row]
        if gone is not None:
            self._heads_of.get(gone.layer, {}).pop(id, None)
            if gone.layer == "session":
                self._set_closed(gone.scope.session, closed=False)
        if row is None:
            return
        self.records.news[self.records[row].layer] += 1
        self._alive[row], self._layer[row], self._until[row] = False, GONE, NEVER
        self._removed += 1
        self._arrangement.start_anew()
        self.pending.pop(row, None)
        self._forget_earlier(row)
        if gone is not None and gone.layer == "conversation":
            session = self.sessions[gone.scope.session]
            session.remove(row)
            if not session:
                del self.sessions[gone.scope.session]

    def bury_ended(self, now: int) -> None:
        """Hide what has expired or ended by now; show it again if the clock turns out to have been ahead."""
        if self._first_asked is None:
            self._first_asked = now
        if not self._steady[0] <= now < self._steady[1]:
            self._masks.clear()
            until = self._until[: len(self.records)]
            over = until <= now
            if over.any():
                self._steady = int(until[over].max()), int(until[~over].min(initial=NEVER))
                self._ended = int(np.count_nonzero(over & (until > self._first_asked)))
            else:
                self._steady, self._ended = (-NEVER, int(until.min(initial=NEVER))), 0

    def _is_findable(self, record: Record) -> bool:
        """Whether it has text to be found by, and neither it nor its session is set aside."""
        return bool(record.content) and not is_aside(record) and record.scope.session not in self._closed

    @property
    def is_wasteful(self) -> bool:
        """Whether more rows were lost than are left, so that rebuilding it pays.

        Rows that had ended before the first query do not count: a rebuild would bring back those the store still has.
        """
        lost = self._removed + self._ended
        return lost > WASTED_ROWS and lost * 2 > len(self.records)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._words.vocabulary

    @property
    def holds_gone(self) -> bool:
        """Whether it holds records that were dropped, which must not be spilled to a file."""
        return self.lacks_news or self._removed > 0

    @property
    def nbytes(self) -> int:
        """Approximate memory held now."""
        arrays = (self._alive, self._importance, self._when, self._layer, self._until)
        rows = INDEX_BYTES + ROW_BYTES * len(self.records) + sum([each.nbytes for each in arrays])
        words = self._words.nbytes + self.kinship.nbytes
        vectors = self.vectors.nbytes + self._earlier.nbytes
        lines = len(self.notes.lines) if self.notes is not None else 0
        told = self.records.nbytes + self.records.ties.nbytes + HEAD_BYTES * len(self.heads) + LINE_BYTES * lines
        return told + rows + words + vectors + self._arrangement.nbytes + TIME_BYTES * len(self._times_told)

    @property
    def opened(self) -> int:
        """How many records are unpacked and vectors widened: a cheap sign that it holds more than before."""
        return self.records.unpacked + self.vectors.widened

    @property
    def state(self) -> object:
        """A value that differs once the index knows more than before."""
        return self.mark, len(self._words), self.kinship.rows

    def trim(self) -> None:
        """Release unpacked records, where there are many."""
        self.records.trim()

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self._talk = self.notes = None
        self._times_told.clear()
        self.records.clear()
        self.vectors.rest()
        self._earlier.rest()
        self._words.rest()
        self.kinship.rest()

    def _forget_answers(self) -> None:
        self._steady = NEVER, 0
        self._masks.clear()
        self._prior = None
        self._talk = None

    # ── querying ─────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.row_of)

    def alive(self, now: int, layers: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which rows may be found: living, current, of these layers."""
        return self.mask(now, layers)[0]

    def mask(self, now: int, layers: Sequence[str] = ()) -> tuple[NDArray[np.bool_], bool]:
        """Which rows may be found, and whether all of them may."""
        self.bury_ended(now)
        key = tuple(layers)
        held = self._masks.get(key)
        if held is None:
            size = len(self.records)
            mask = self._alive[:size] & (self._until[:size] > now)
            if key:
                mask &= self._is_of(key)
            held = self._masks[key] = mask, bool(mask.all())
        return held

    def _is_of(self, layers: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows are of these layers, by a few comparisons: `np.isin` takes ten times as long."""
        layer_of = self._layer[: len(self.records)]
        found = np.zeros(len(layer_of), np.bool_)
        for layer in layers:
            if layer in self._layers:
                found |= layer_of == self._layers[layer]
        return found

    def prior(self, at: int) -> Scores:
        """What recency and importance add to each row, whatever is asked; computed once an hour."""
        hour = at // HOUR_MS
        if self._prior is None or self._prior[0] != hour:
            size = len(self.records)
            self._prior = hour, scoring.prior(self._importance[:size], self._when[:size], hour * HOUR_MS)
        return self._prior[1]

    def words(self, query: Sequence[str]) -> Scores:
        """The BM25 score of each row."""
        self._read_words()
        return self._words.scores(query, len(self.records))

    def cover(self, query: Sequence[str]) -> Scores:
        """The share of what is asked that each row has, weighted by rarity."""
        self._read_words()
        return self._words.cover(query, len(self.records))

    def _read_words(self) -> None:
        """Read the texts that came since the last query."""
        self._read_texts(len(self.records))

    def _read_texts(self, end: int, *, together: bool = False) -> None:
        first = len(self._words)
        if first < end:
            self._words.read(self._texts(range(first, end)), together=together)
            self._unkept += sum(self._length[first:end])

    def _texts(self, rows: Iterable[int]) -> list[str]:
        return [_worded(self.records[row]) for row in rows]

    async def read_long(self) -> bool:
        """Read the next texts in a thread, if one of them is long. Returns whether it did."""
        first = len(self._words)
        end = self._portion_end(first)
        if not self._has_long(first, end):
            return False
        texts = self._texts(range(first, end))
        self._words.add(first, await asyncio.to_thread(self.vocabulary.read, texts))
        self._unkept += sum(self._length[first:end])
        return True

    async def merge(self) -> None:
        """Merge the words of the texts that were read; if they are many, in a thread."""
        if unmerged := self._words.unmerged:
            self._words.take(await apart(self._words.merging(), unmerged // MERGED))

    @property
    def may_take_over(self) -> bool:
        """Whether much is to be read, and none of it has been."""
        return not len(self._words) and self._characters >= KEPT_CHARACTERS

    async def take_over(self, data: bytes) -> None:
        """Take over the words of messages that an earlier index has read, and read the texts that are new."""
        taken = await read_with(data, self.language, self._messages(), self._length[:], self.vocabulary, self._texts)
        if taken is not None:
            self._words.add(0, taken[0])
            self._unkept = taken[1]

    def _messages(self) -> Messages:
        """The messages here that are not gone."""
        number = self._layers.get("conversation", GONE - 1)
        rows = (self._layer[: len(self.records)] == number).nonzero()[0]
        return Messages(rows, self.births[rows], np.array(self._length, np.int64)[rows])

    @property
    def is_worth_keeping(self) -> bool:
        """Whether much was read that an index of a later start would have to read again."""
        return self._unkept >= KEPT_CHARACTERS and self._unkept * KEPT_SHARE >= self._characters

    def packing(self) -> Callable[[], bytes]:
        """What packs the words of all messages read so far, to be kept. It may run in a thread."""
        messages, (lengths, keys), language = self._messages(), self._words.standing(), self.language
        read = messages.rows < len(lengths)
        messages, known = Messages(*(each[read] for each in messages)), self.vocabulary
        self._unkept = 0
        return lambda: KeptWords.of(messages, lengths, keys(), known).packed(language)

    def lost_kept(self) -> None:
        """Note that nothing of this is kept any more, or that it could not be."""
        self._unkept = sum(self._length[: len(self._words)])

    def read_on(self, *, for_signs: bool) -> bool:
        """Read some of what came since the last query. Returns whether to go on, after yielding to other tasks.

        With `for_signs`, rows are also searched for times and numbers, for a question that asks for these.
        """
        size, arranged = len(self.records), self._arrangement
        if len(self._words) < size:
            self._read_texts(self._portion_end(len(self._words)), together=True)
        elif len(arranged) < size:
            arranged.take(self.records, self._portion_end(len(arranged)))
        elif for_signs and arranged.signed < size:
            arranged.read_signs(self.records, self._portion_end(arranged.signed))
        else:
            return self.vectors.encode(size, ENCODED_ROWS)
        return True

    def _portion_end(self, first: int) -> int:
        """The end of the portion that begins with this row: of many rows or long texts, what is read in one go."""
        lengths = self._length[first : first + READ_ROWS]
        if sum(lengths) <= READ_CHARACTERS:
            return first + len(lengths)
        return first + max(1, bisect_right([*accumulate(lengths)], READ_CHARACTERS))

    def portions(self, *, for_signs: bool) -> int:
        """Roughly how many portions are to be read before a query; 0 if it may as well read them itself."""
        first = len(self.records) - max(self.unread, self.unsigned if for_signs else 0)
        lengths = self._length[first:]
        return len(lengths) // READ_ROWS + sum(lengths) // READ_CHARACTERS + self._has_long(first, len(self.records))

    def _has_long(self, first: int, end: int) -> bool:
        """Whether one of these texts may have many thousands of words: in Chinese, each character begins two."""
        rows = [row for row in range(first, end) if self._length[row] >= LONG_CHARACTERS]
        return any(self._length[row] >= LONG_ASCII or not self.records[row].content.isascii() for row in rows)

    @property
    def unread(self) -> int:
        """How many rows came since the last query."""
        return len(self.records) - min(len(self._words), len(self._arrangement))

    @property
    def unsigned(self) -> int:
        """How many rows have not been searched for times and numbers; 0 without turns, which alone need them."""
        return len(self.records) - self._arrangement.signed if self.sessions else 0

    @property
    def has_earlier(self) -> bool:
        """Whether some rows have only a vector of the previous model."""
        return bool(self._earlier_rows)

    def meaning(
        self,
        query: NDArray[np.float32],
        alive: NDArray[np.bool_],
        earlier: NDArray[np.float32] | None = None,
        only: NDArray[np.intp] | None = None,
    ) -> Scores:
        """The cosine of each row, or of the rows in `only`. `earlier` is the query in the space of the previous model,
        for rows whose vectors are still of that model.
        """
        if only is None:
            scores = self.vectors.scores(query, len(self.records), alive)
        else:
            scores = self.vectors.scores_of(only, query, len(self.records))
        if earlier is not None and self._earlier_rows:
            rows = np.fromiter(self._earlier_rows, np.intp)
            older = np.vecdot(self._earlier.matrix(len(self.records))[rows], earlier)
            scores[rows] = _alike(older, scores[alive & (scores != 0)])
        return scores

    def nearest(
        self, vector: Vector | None, alive: NDArray[np.bool_], most: int, least: float
    ) -> Iterator[tuple[Record, float]]:
        """The records whose cosine is at least `least`, nearest first; none for a vector of another model."""
        if vector is None or vector.model != self.model:
            return
        cosines = self.meaning(floats(vector), alive)
        rows = (alive & (cosines >= least)).nonzero()[0]
        for row in rows[(-cosines[rows]).argsort(kind="stable")][:most].tolist():
            yield self.records[row], float(cosines[row])

    def worth_comparing(self, near: Sequence[str], words: Scores) -> NDArray[np.intp]:
        """The rows to compare by meaning when an index beside the store has proposed what is near: these, those that
        words found, and those that it cannot know of yet.
        """
        proposed = [self.row_of[id] for id in near if id in self.row_of]
        told = np.flatnonzero(words)
        if len(told) > TOLD_ROWS:
            told = told[np.argpartition(words[told], -TOLD_ROWS)[-TOLD_ROWS:]]
        return np.concatenate([np.array([*proposed, *self._read_here], np.intp), told])

    def talk(self) -> Talk:
        """How the rows relate to each other; computed again after each change."""
        if self._talk is None:
            self._read_words()
            self._talk = self._arrangement.talk(self.records, self._words.lengths())
        return self._talk

    def time_told(self, row: int) -> Span | None:
        """The time that the text of a row names, as of when it was said: "yesterday" is the day before."""
        if row not in self._times_told:
            self._times_told[row] = span_of(self.records[row].content, int(self._when[row]), self.language)
        return self._times_told[row]

    def posted(self, query: Sequence[str]) -> list[tuple[NDArray[np.intp], Scores] | None]:
        """For each term, its rows and its count in each."""
        return [self._words.posted(term) for term in query]

    def told(self, query: Sequence[str]) -> Told:
        """The rows of each term, and how informative it is."""
        return self._words.told(query)

    def rarities(self, words: Iterable[str]) -> list[float]:
        """How informative each of these words is here, in whatever form it occurs."""
        return [self._words.rarity_of(word) for word in words]

    @property
    def importance(self) -> Scores:
        return self._importance[: len(self.records)]

    @property
    def when(self) -> NDArray[np.int64]:
        return self._when[: len(self.records)]

    @property
    def births(self) -> NDArray[np.int64]:
        """When each row's record was born, as one number."""
        return np.array(self._born, np.int64)

    def record(self, id: str, now: int) -> Record | None:
        """The living record with this id, of any layer held here; None if there is none or it is set aside."""
        row = self.row_of.get(id)
        record = self.heads.get(id) if row is None else self.records[row]
        return record if record is not None and _lives(record, now) and record.trust != "quarantined" else None

    def stored(self, ids: Iterable[str], now: int) -> tuple[list[Record], list[str]]:
        """The living records among these ids as the store has them, and the ids that only the store has."""
        found: list[Record] = []
        elsewhere: list[str] = []
        for id in ids:
            row = self.row_of.get(id)
            record = self.heads.get(id) if row is None else self.records[row]
            if record is not None and _lives(record, now):
                found.append(record)
            elif id in self._unheld:
                elsewhere.append(id)
        return found, elsewhere

    def tied_to(self, id: str) -> list[Record]:
        """The records that rest on an id, absorbed it or name it as an act, or once did."""
        records = self.records
        return [records[row] for row in records.ties.to(id) if _is_held(records.ids, self.row_of, row)]

    def head(self, layer: str, scope: Scope, now: int) -> Record | None:
        """The living head of a layer that has one for each scope."""
        record = self.record(LAYERS[layer].head_id(scope), now)
        return record if record is not None and record.layer == layer else None

    def of_layer(self, layer: str, now: int) -> list[Record]:
        """The current records of a layer, in order of birth."""
        living = (record for record in self.held(layer, now) if record.trust != "quarantined")
        return sorted([record for record in living if is_current(record, now)], key=attrgetter("born"))

    def news_of(self, layers: Iterable[str]) -> tuple[int, ...]:
        """Numbers that differ after each change to what these layers hold."""
        return tuple(self.records.news[layer] for layer in layers)

    def next_end(self, layers: Iterable[str], now: int) -> int:
        """When the next record of these layers expires or ends."""
        until = self._until[: len(self.records)][self._is_of(layers)]
        return int(until[until > now].min(initial=NEVER))

    def held(self, layer: str, now: int) -> list[Record]:
        """All living records of a layer, including those that ended or were set aside."""
        if layer in self._layers:
            rows = (self._layer[: len(self.records)] == self._layers[layer]).nonzero()[0].tolist()
            found = [self.records[row] for row in rows]
        else:
            found = [self.heads[id] for id in self._heads_of.get(layer, ())]
        return [record for record in found if _lives(record, now)]

    def session(self, session: str, now: int, after: Born = (0, 0)) -> list[Record]:
        """The living messages of a session that were born after `after`, in order."""
        return [record for row in self._rows_after(session, after) if _lives(record := self.records[row], now)]

    def spoken(self, session: str, after: Born) -> tuple[int, int]:
        """How many messages of a session were born after `after`, and their characters; expired ones may be counted."""
        rows = self._rows_after(session, after)
        return len(rows), sum([self._length[row] for row in rows])

    def _rows_after(self, session: str, after: Born) -> Sequence[int]:
        rows = self.sessions.get(session, _NO_ROWS)
        return rows[bisect_right(rows, _packed(after), key=self._born.__getitem__) :]

    def newest(self, session: str, now: int, after: Born = (0, 0)) -> Iterator[Record]:
        """The living messages of a session that were born after `after`, newest first, read lazily."""
        since = _packed(after)
        for row in reversed(self.sessions.get(session, _NO_ROWS)):
            if self._born[row] <= since:
                return
            if _lives(record := self.records[row], now):
                yield record

    def oldest(self, session: str, now: int) -> Iterator[Record]:
        """All living messages of a session, oldest first, read lazily."""
        return (record for row in self.sessions.get(session, _NO_ROWS) if _lives(record := self.records[row], now))

    def activity(self, now: int, session: str | None = None) -> list[Activity]:
        """All sessions with living messages, or one, most recently active first, those of one moment by their names.

        Unpacks only messages that ended.
        """
        rows_of = self.sessions if session is None else {session: self.sessions.get(session, _NO_ROWS)}
        held = {name: rows for name, rows in rows_of.items() if rows}
        if not held:
            return []
        joined = array("I")
        for each in held.values():
            joined.extend(each)
        rows = np.array(joined, np.intp)
        starts = np.cumsum([0, *map(len, held.values())])[:-1]
        living = self._living(rows, now)
        counts = np.add.reduceat(living.astype(np.intp), starts)
        last = np.maximum.reduceat(np.where(living, self._when[rows], -NEVER), starts)
        found = [Activity(*each) for each in zip(held, counts.tolist(), last.tolist(), strict=True) if each[1]]
        return sorted(found, key=lambda each: (-each.last_at, each.session))

    def _living(self, rows: NDArray[np.intp], now: int) -> NDArray[np.bool_]:
        """Which of these rows live: a record that has ended may still be alive."""
        living: NDArray[np.bool_] = self._until[rows] > now
        if not living.all():
            living[~living] = [_lives(self.records[row], now) for row in rows[~living].tolist()]
        return living

    def neighbours(self, record: Record, now: int, reach: int = 1) -> tuple[Record, ...]:
        """The messages right before and after a message, up to `reach` on each side."""
        rows, row = self.sessions.get(record.scope.session, _NO_ROWS), self.row_of.get(record.id, -1)
        at = bisect_left(rows, row)
        if at == len(rows) or rows[at] != row:  # it is not there, or rows were not added in order
            at = rows.index(row) if row in rows else -1
        if at < 0 or self._born[row] != _packed(record.born):
            return ()  # it was forgotten since it was found
        around = rows[max(0, at - reach) : at] + rows[at + 1 : at + 1 + reach]
        found = [self.records[row] for row in around]
        return tuple(each for each in found if _lives(each, now) and each.trust != "quarantined")


def _worded(record: Record) -> str:
    """The text that a record is found by: for a fact, also how people say it or ask for it ("works at", "job")."""
    key = KEYS.get(record.data.get("key", "")) if record.layer in FACT_LAYERS else None
    return f"{record.told} ({key.label} {key.asked})" if key else record.told


def _is_held(ids: Sequence[str], row_of: Mapping[str, int], row: int) -> bool:
    """Whether a row is still that of its record: a record whose text changed has another row."""
    return row_of.get(ids[row]) == row


def _end(record: Record) -> int:
    """When a record expires or ends, whichever comes first."""
    expires = NEVER if record.expires_at is None else record.expires_at
    return expires if record.valid_to is None else min(expires, record.valid_to)


def _packed(born: Born) -> int:
    return born[0] << PLACE_BITS | born[1]


def _alike(scores: Scores, others: Scores) -> Scores:
    """Scores of one model with the mean and spread of another's, so that what stands out counts alike in both."""
    if min(len(scores), len(others)) < LIKE_ROWS:
        return scores
    alike: Scores = (scores - scores.mean()) * (others.std() / max(float(scores.std()), 1e-6)) + others.mean()
    return alike


def _lives(record: Record, now: int) -> bool:
    return record.expires_at is None or record.expires_at > now
