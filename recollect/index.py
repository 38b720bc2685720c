"""One partition in memory: its words, vectors and heads, kept current by revision.

Each searched record has a row: the record itself is in `shelf.py`, what was read of its text in `uptake.py`, its vector
in `spaces.py`; `session_rows.py` has the rows of each session. The other records that queries and contexts need are
held by id, as heads. Before each use `indexes.py` asks the store what changed since the index's mark, and applies it
here. So ranking is the same code with the same result on every store, and a store only has to keep records.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.kept_words import Messages
from recollect.kinship import Kinship
from recollect.layers import FACT_LAYERS, LAYERS, SEARCHED_LAYERS, is_current
from recollect.overtaken import Overtaken
from recollect.policies import scoring
from recollect.policies.dates import Span, span_of
from recollect.policies.overtaken import is_taken_back, said_instead
from recollect.policies.quarantine import ASIDE, is_aside
from recollect.policies.scoring import Scores
from recollect.policies.turn_scoring import Talk
from recollect.postings import Told
from recollect.providers import floats
from recollect.records import HOUR_MS, Born, Record, Scope, Vector
from recollect.session_rows import SessionRows
from recollect.shelf import Shelf
from recollect.spaces import Spaces
from recollect.stores.contract import Delta, Mark
from recollect.uptake import Uptake
from recollect.vectors import ROWS, at_once, grown
from recollect.vocabulary import Vocabulary

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
ENCODED_ROWS = 5_000
"""Rows whose vectors are encoded before yielding to other tasks."""


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
        self.spaces = Spaces(model, dimensions, earlier_model)
        self.records = Shelf(model, self.spaces.vectors.data_of)
        """The record of each row."""
        self.row_of: dict[str, int] = {}
        self.heads: dict[str, Record] = {}
        self._heads_of: dict[str, dict[str, None]] = {}
        self._unheld: set[str] = set()
        self.past: dict[str, int] = {}
        """The version of each record of the layer `past`: a caller that caches some of them sees here what changed."""
        self.overtaken = Overtaken()
        self.sessions = SessionRows()
        self._closed: set[str] = set()
        self.pending: dict[int, None] = {}
        self.counted_nbytes = self.counted_opened = 0
        self.language = language
        # Nothing here refers back to the index, so that an evicted one is freed at once, with everything it held.
        is_held = partial(_is_held, self.records.ids, self.row_of)
        self.uptake = Uptake(self.records, self.sessions, is_held, language)
        self.kinship = Kinship(language)
        self._alive: NDArray[np.bool_] = np.zeros(ROWS, np.bool_)
        self._importance: NDArray[np.float32] = np.zeros(ROWS, np.float32)
        self._when: NDArray[np.int64] = np.zeros(ROWS, np.int64)
        self._layers: dict[str, int] = {}
        self._layer: NDArray[np.int16] = np.zeros(ROWS, np.int16)
        self._until: NDArray[np.int64] = np.zeros(ROWS, np.int64)
        # Nothing ends between these two times.
        self._steady = NEVER, 0
        self._masks: dict[tuple[str, ...], tuple[NDArray[np.bool_], bool]] = {}
        self._prior: tuple[int, Scores] | None = None
        self._times_told: dict[int, Span | None] = {}
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
            self.uptake.lost_kept()
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
        self.spaces.vectors.make_room(len(self.records), more=delta.more)
        self.mark = delta.mark

    def _hold(self, record: Record) -> None:
        """Add a record that is not searched."""
        if record.layer in UNHELD_LAYERS:
            self._unheld.add(record.id)
            if record.layer == "past":
                self.past[record.id] = record.version
                self.overtaken.note(record)
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
        self.sessions.bear([record.born for record in records])
        self.uptake.add(records)
        for row, record in zip(rows, records, strict=True):
            if record.layer == "conversation":
                self.sessions.place(row, record.scope.session)
        self._fill(dict(zip(rows, records, strict=True)))

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
        known = self.spaces.put(rows, vectors)
        fits = self.spaces.vectors.fits
        in_matrix = [each and fits(vector) for vector, each in zip(vectors, known, strict=True)]
        self.records.put(rows, records, in_matrix)
        for record in records:
            if record.layer in FACT_LAYERS:
                self.overtaken.note(record)
        for row, record, has_meaning in zip(rows, records, known, strict=True):
            if has_meaning or not record.content or not LAYERS[record.layer].embedded:
                self.pending.pop(row, None)
            else:
                self.pending[row] = None

    def read(self, row: int, vector: Vector | None) -> None:
        """Give a pending row its vector, in this index only: the store gets it from the worker."""
        self.spaces.put_here(row, vector)
        self.pending.pop(row, None)

    def _remove(self, id: str) -> None:
        self._unheld.discard(id)
        self.past.pop(id, None)
        self.overtaken.drop(id)
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
        self.uptake.lost()
        self.pending.pop(row, None)
        self.spaces.forget_earlier(row)
        if gone is not None and gone.layer == "conversation":
            self.sessions.remove(row, gone.scope.session)

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
        return self.uptake.vocabulary

    @property
    def holds_gone(self) -> bool:
        """Whether it holds records that were dropped, which must not be spilled to a file."""
        return self.lacks_news or self._removed > 0

    @property
    def nbytes(self) -> int:
        """Approximate memory held now."""
        arrays = (self._alive, self._importance, self._when, self._layer, self._until)
        rows = INDEX_BYTES + ROW_BYTES * len(self.records) + sum([each.nbytes for each in arrays])
        words = self.uptake.nbytes + self.kinship.nbytes
        lines = len(self.notes.lines) if self.notes is not None else 0
        told = self.records.nbytes + self.records.ties.nbytes + HEAD_BYTES * len(self.heads) + LINE_BYTES * lines
        told += self.overtaken.nbytes
        return told + rows + words + self.spaces.nbytes + TIME_BYTES * len(self._times_told)

    @property
    def opened(self) -> int:
        """How many records are unpacked and vectors widened: a cheap sign that it holds more than before."""
        return self.records.unpacked + self.spaces.vectors.widened

    @property
    def state(self) -> object:
        """A value that differs once the index knows more than before."""
        return self.mark, len(self.uptake.words), self.kinship.rows

    def trim(self) -> None:
        """Release unpacked records, where there are many."""
        self.records.trim()

    def rest(self) -> None:
        """Drop whatever the next query can rebuild."""
        self.notes = None
        self._times_told.clear()
        self.records.clear()
        self.spaces.rest()
        self.uptake.rest()
        self.kinship.rest()

    def _forget_answers(self) -> None:
        self._steady = NEVER, 0
        self._masks.clear()
        self._prior = None
        self.uptake.forget_talk()

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

    def has_held(self, layers: Iterable[str]) -> bool:
        """Whether there is, or was, a record of one of these layers."""
        return any(layer in self._layers for layer in layers)

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
        return self.uptake.all_words().scores(query, len(self.records))

    def cover(self, query: Sequence[str]) -> Scores:
        """The share of what is asked that each row has, weighted by rarity."""
        return self.uptake.all_words().cover(query, len(self.records))

    async def take_over(self, data: bytes) -> None:
        """Take over the words of messages that an earlier index has read, and read the texts that are new."""
        await self.uptake.take_over(data, self._messages())

    def packing(self) -> Callable[[], bytes]:
        """What packs the words of all messages read so far, to be kept. It may run in a thread."""
        return self.uptake.packing(self._messages())

    def _messages(self) -> Messages:
        """The messages here that are not gone."""
        number = self._layers.get("conversation", GONE - 1)
        rows = (self._layer[: len(self.records)] == number).nonzero()[0]
        return Messages(rows, self.births[rows], np.array(self.uptake.lengths, np.int64)[rows])

    def read_on(self, *, for_signs: bool) -> bool:
        """Read some of what came since the last query. Returns whether to go on, after yielding to other tasks.

        With `for_signs`, rows are also searched for times and numbers, for a question that asks for these.
        """
        return self.uptake.read_on(for_signs=for_signs) or self.spaces.vectors.encode(len(self.records), ENCODED_ROWS)

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
        return self.spaces.meaning(query, len(self.records), alive, earlier, only)

    def nearest(
        self, vector: Vector | None, alive: NDArray[np.bool_], most: int, least: float
    ) -> Iterator[tuple[Record, float]]:
        """The records whose cosine is at least `least`, nearest first; none for a vector of another model."""
        if vector is None or vector.model != self.spaces.model:
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
        return np.concatenate([np.array([*proposed, *self.spaces.read_here], np.intp), told])

    def talk(self) -> Talk:
        """How the rows relate to each other; computed again after each change."""
        return self.uptake.talk()

    def time_told(self, row: int) -> Span | None:
        """The time that the text of a row names, as of when it was said: "yesterday" is the day before."""
        if row not in self._times_told:
            self._times_told[row] = span_of(self.records[row].content, int(self._when[row]), self.language)
        return self._times_told[row]

    def posted(self, query: Sequence[str]) -> list[tuple[NDArray[np.intp], Scores] | None]:
        """For each term, its rows and its count in each."""
        return [self.uptake.words.posted(term) for term in query]

    def told(self, query: Sequence[str]) -> Told:
        """The rows of each term, and how informative it is."""
        return self.uptake.words.told(query)

    def rarities(self, words: Iterable[str]) -> list[float]:
        """How informative each of these words is here, in whatever form it occurs."""
        return [self.uptake.words.rarity_of(word) for word in words]

    @property
    def importance(self) -> Scores:
        return self._importance[: len(self.records)]

    @property
    def when(self) -> NDArray[np.int64]:
        return self._when[: len(self.records)]

    @property
    def births(self) -> NDArray[np.int64]:
        """When each row's record was born, as one number."""
        return np.array(self.sessions.born, np.int64)

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

    def said_instead(self, id: str, at: int) -> Iterator[tuple[int, Sequence[str] | None]]:
        """If this message told what is no longer so: the row of each fact, and the ids of what tells how it is now.

        None instead of ids if it was taken back.
        """
        for former in self.overtaken.by(id):
            row = self.row_of.get(former.fact)
            if row is not None:
                fact = self.records[row]
                taken_back = is_taken_back(fact, former, at)
                yield row, None if taken_back else said_instead(fact, former, id, at)

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
        return [record for row in self.sessions.after(session, after) if _lives(record := self.records[row], now)]

    def spoken(self, session: str, after: Born) -> tuple[int, int]:
        """How many messages of a session were born after `after`, and their characters; expired ones may be counted."""
        rows, lengths = self.sessions.after(session, after), self.uptake.lengths
        return len(rows), sum([lengths[row] for row in rows])

    def newest(self, session: str, now: int, after: Born = (0, 0)) -> Iterator[Record]:
        """The living messages of a session that were born after `after`, newest first, read lazily."""
        return (record for row in self.sessions.newest(session, after) if _lives(record := self.records[row], now))

    def oldest(self, session: str, now: int) -> Iterator[Record]:
        """All living messages of a session, oldest first, read lazily."""
        return (record for row in self.sessions.of(session) if _lives(record := self.records[row], now))

    def activity(self, now: int, session: str | None = None) -> list[Activity]:
        """All sessions with living messages, or one, most recently active first, those of one moment by their names.

        Unpacks only messages that ended.
        """
        rows_of = self.sessions if session is None else {session: self.sessions.of(session)}
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
        row = self.row_of.get(record.id, -1)
        around = self.sessions.around(row, record.scope.session, record.born, reach)
        found = [self.records[row] for row in around]
        return tuple(each for each in found if _lives(each, now) and each.trust != "quarantined")


def _is_held(ids: Sequence[str], row_of: Mapping[str, int], row: int) -> bool:
    """Whether a row is still that of its record: a record whose text changed has another row."""
    return row_of.get(ids[row]) == row


def _end(record: Record) -> int:
    """When a record expires or ends, whichever comes first."""
    expires = NEVER if record.expires_at is None else record.expires_at
    return expires if record.valid_to is None else min(expires, record.valid_to)


def _lives(record: Record, now: int) -> bool:
    return record.expires_at is None or record.expires_at > now
