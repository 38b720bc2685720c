"""Gather, score, select: from a question to the records that answer it, each with its reasons.

A question is parsed once: its terms, its vector, the time it names, its parts. Then every row of the user's index and
of the org's is scored by several legs (words, meaning, recency, importance; for turns of a conversation also what
surrounds them), and the best rows that pass the filter become hits. A hit can tell what each leg added to its score.
Where there is no vector, words alone answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbeddingError
from recollect.filters import Condition
from recollect.found import Chosen, Legs, Question, Scored, Turns
from recollect.index import PartitionIndex
from recollect.indexes import Indexes
from recollect.indexing import Indexing
from recollect.kinship import WordVectors
from recollect.pace import Pace
from recollect.policies import phrasing, scoring, turn_scoring
from recollect.policies.asking import Event, event_of, names_in, parts
from recollect.policies.dates import Span, span_around, span_of, tells_of
from recollect.policies.phrasing import Asked
from recollect.policies.scoring import Scores
from recollect.policies.words import content_words, query_terms, spoken, stop_words
from recollect.precedence import OVERTAKEN_ROWS, current_first, may_be_over
from recollect.providers import Embedder, embed_checked
from recollect.records import DAY_MS, Clock, Hit, Partition, Record, Scope
from recollect.reranking import CANDIDATES, SURROUNDED, Candidate, Reranker, second_look

log = logging.getLogger("recollect.recall")

EMBED_WAIT_S = 2.0
"""How long a question waits for its vector. A person is waiting too, and words alone find most answers."""
NOT_FOUND = -9.0
"""The score of a row that may not be found: below every score that the legs can give."""
READ_TRIES = 3
"""How often indexes are caught up while many rows are still to be read: others may write as much meanwhile."""
READ_AT_ONCE = 64
"""Up to this many new rows are embedded by the search itself; if there are more, all are left to the worker."""
SORTED_ROWS = 512
"""Up to this many rows are simply sorted; of more, the best are picked out first."""
KIN_ROWS = 128
"""Turns that are compared with the question word by word: the best by everything else. More change nothing."""
ECHO_ROWS, ECHO_WORDS = 32, 4
"""How many of the best rows are checked for merely repeating the question, and how many distinct words they may have
for each of its terms: a text with more words says more, and need not be stemmed to see that.
"""
SEASON_MS, RECALLED_MS, RECALLED_ROWS = 93 * DAY_MS, 40 * DAY_MS, 256
"""A time no longer than a season is also spoken of this long before and after it, as "next month" or "yesterday"; and
how many of the best rows from then are checked for that.
"""
PART_LESS = 0.1
"""Taken off the score for a part of a question: a row that fits the whole equally well comes first."""
FIRST_HITS, NAMES_MAX = 3, 4
"""How many of the first hits are searched for names to look up in turn, and how many of these names."""
SECOND_LESS = 0.04
"""Taken off the score of what only the names in the first hits lead to: what the question itself finds comes first."""
OF_A_TIME = ("fact", "preference", "relation")
"""Layers that state what is true now: a job that begins in May is not stated before; the message is found as ever."""
SEARCHED_ROWS = 20
"""Rows that are searched in the time that one unit of work takes."""
STRETCHED = 5
"""How much longer finding the stretch of a text that a reranker reads takes than reading the text."""
QUERY_CHARACTERS = 2_000
"""How much of a question is searched for: a pasted document is not a better question."""


class Recall:
    """Finds records of a user and of the user's org."""

    def __init__(
        self,
        indexes: Indexes,
        indexing: Indexing,
        embedder: Embedder | None,
        language: str,
        clock: Clock,
        earlier: Embedder | None = None,
        word_vectors: WordVectors | None = None,
    ) -> None:
        self._word_vectors = word_vectors if embedder is not None else None
        self._indexes = indexes
        self._indexing = indexing
        self.embedder_state = "not asked yet" if embedder else "none"
        """How the embedder did for the last question."""
        self._embedder = embedder
        self._earlier = earlier
        self._language = language
        self._clock = clock
        self._pace, self._searched = Pace(), 0

    async def question(self, text: str, at: int | None = None, also: Sequence[str] = ()) -> Question:
        """Parse a question once for all legs; `also` says it in other words. Without a vector, words alone answer."""
        text = text[:QUERY_CHARACTERS]
        asked = self._clock() if at is None else at
        whole = await self._one(text, asked)
        apart = [*parts(text), *also]
        event = event_of(text) if whole.span is None else None
        if not apart and event is None:
            return whole
        measured = (event, await self._one(event.text, asked)) if event is not None else None
        return replace(whole, parts=tuple([await self._one(part, asked) for part in apart]), event=measured)

    async def _one(self, text: str, at: int) -> Question:
        vector = await self._vector(self._embedder, text) if self._embedder is not None else None
        terms = tuple(query_terms(text, self._language))
        return Question(text, terms, vector, at, span_of(text, at, self._language))

    async def _vector(self, embedder: Embedder, text: str) -> NDArray[np.float32] | None:
        """The text as a vector of length one; None if the embedder fails, takes too long or returns nothing usable."""
        try:
            if getattr(embedder, "immediate", False):
                rows = await embedder.embed([text])
            else:
                async with asyncio.timeout(EMBED_WAIT_S):
                    rows = await embedder.embed([text])
            # In float64, as for stored vectors: smaller squares overflow or vanish. `vdot` is silent if these do.
            row = rows[0].astype(np.float64)
            square = float(np.vdot(row, row)) if rows.shape == (1, embedder.dimensions) else 0.0
        except Exception as error:  # an embedder may raise anything, and words answer without it
            log.warning("searching by words alone: the embedder failed (%s)", type(error).__name__)
            self.embedder_state = f"fails ({type(error).__name__})"
            return None
        self.embedder_state = "answers"
        if not 0 < square < math.inf:
            return None
        vector: NDArray[np.float32] = (row / math.sqrt(square)).astype(np.float32)
        return vector

    async def _read_new(self, index: PartitionIndex) -> None:
        """Embed the rows that the worker has not got to yet, if the embedder is quick."""
        rows = list(index.pending)
        if not rows or len(rows) > READ_AT_ONCE or not getattr(self._embedder, "immediate", False):
            return
        assert self._embedder is not None
        records = [index.records[row] for row in rows]
        try:
            vectors = await embed_checked(self._embedder, [record.told for record in records])
        except EmbeddingError:
            return  # the worker tries again, and reports it
        for row, record, vector in zip(rows, records, vectors, strict=True):
            if row in index.pending and index.records[row].version == record.version:
                index.read(row, vector)

    async def _with_earlier(self, question: Question, index: PartitionIndex) -> Question:
        """The question, with its vector by the previous embedder if this index needs it."""
        if self._earlier is None or question.earlier is not None or not index.spaces.has_earlier:
            return question
        return replace(question, earlier=await self._vector(self._earlier, question.text))

    async def _with_near(self, partition: Partition, question: Question) -> Question:
        """The question and its parts, each with the ids that the index beside the store considers nearest."""
        if not self._indexing.is_set:
            return question
        near = [await self._indexing.near(partition, each.vector) for each in (question, *question.parts)]
        parts = tuple(replace(part, near=ids) for part, ids in zip(question.parts, near[1:], strict=True))
        return replace(question, near=near[0], parts=parts)

    async def search(
        self,
        scope: Scope,
        question: Question,
        *,
        layers: Sequence[str] = (),
        test: Condition | None = None,
        limit: int,
        reranker: Reranker | None = None,
        indexes: Sequence[PartitionIndex] | None = None,
    ) -> list[Hit]:
        """The best records, each with its rank and reasons; a reranker takes a second look at the first of them.

        `indexes` are those of the queried partitions, if the caller has already read them.
        """
        scored = []
        indexes = await self.read(scope, question) if indexes is None else indexes
        now = self._clock()
        for partition, index in zip(_asked_partitions(scope), indexes, strict=True):
            if len(index):
                await self._read_new(index)
                question = await self._with_earlier(question, index)
                asked = await self._with_near(partition, question)
                first = _with_parts(index, asked, layers, now, self._word_vectors)
                scored.append(await self._looked_again(first, asked, layers, now))
        if reranker is None:
            count = max(limit, OVERTAKEN_ROWS) if any(map(may_be_over, scored)) else limit
            chosen = _select(scored, question, test, count, now)
        else:
            chosen = _select(scored, question, test, max(limit, CANDIDATES), now)
            chosen = await self._reranked(reranker, scored, question, chosen)
            chosen = await self._still_there(scope, chosen)
        return _hits(scored, current_first(scored, question, chosen)[:limit], now)

    async def _still_there(self, scope: Scope, chosen: Sequence[Chosen]) -> list[Chosen]:
        """Those that were not forgotten or set aside while the reranker was reading, which takes it a second."""
        indexes, now = await self._indexes.all_current(_asked_partitions(scope)), self._clock()
        return [each for each in chosen if any(index.record(each.record.id, now) is not None for index in indexes)]

    async def read(self, scope: Scope, question: Question) -> list[PartitionIndex]:
        """The indexes of the queried partitions, with everything committed, even while many rows were being read."""
        partitions = _asked_partitions(scope)
        # What the question before this one took: a caller who asks many in a row may never have waited.
        await self._pace.done(self._searched // SEARCHED_ROWS)
        for _ in range(READ_TRIES):
            indexes = await self._indexes.all_current(partitions)
            if not any([await _read_much(index, question) for index in indexes]):
                break
        self._searched = sum(map(len, indexes))
        for partition in partitions:
            self._indexes.keep(partition)
        return indexes

    async def _looked_again(self, first: Scored, question: Question, layers: Sequence[str], now: int) -> Scored:
        """The rows scored by the question, or by it together with names from its first hits, whichever is better.

        "Where does the sister of Tom's wife live?" finds who his wife is; her name finds the rest.
        """
        if first.turns is None:
            return first
        # What an assistant says is full of names that lead nowhere; what shares no word with the question is no lead.
        leads = [
            row
            for row in _ordered(first.total, FIRST_HITS).tolist()
            if first.words[row] > 0 and not first.index.talk().assistant[row]
        ]
        names = self._new_names(first.index, leads, question)
        if not names:
            return first
        asked = await self._one(" ".join((question.text, *names)), question.at)
        again = _score(first.index, asked, layers, now, None).total  # names have no kin
        again[leads] = NOT_FOUND  # they led to the names
        again[first.index.mask(now, ("entity",))[0]] = NOT_FOUND  # the name alone, which is known already
        # Rows added while the names were being embedded are at the end, and are left to the next question.
        return _the_better(first, again[: len(first.total)] - np.float32(SECOND_LESS))

    def _new_names(self, index: PartitionIndex, rows: Sequence[int], question: Question) -> list[str]:
        """The names in these rows that the question does not mention, without those of the speakers."""
        known = {*question.terms, *index.talk().speakers}
        found = (name for row in rows for name in _names_of(index.records[row]))
        new = (name for name in found if known.isdisjoint(query_terms(name, self._language)))
        return list(dict.fromkeys(new))[:NAMES_MAX]

    async def _reranked(
        self, reranker: Reranker, scored: Sequence[Scored], question: Question, chosen: list[Chosen]
    ) -> list[Chosen]:
        """The first records in the reranker's order, the rest behind them as they were."""
        if len(chosen) < 2:
            return chosen
        read = [
            _candidate(scored[each.place].index, each) if place < SURROUNDED else Candidate(each.record)
            for place, each in enumerate(chosen[:CANDIDATES])
        ]
        passages, pace = [], Pace()
        for candidate in read:
            passages.append(candidate.passage(question.terms, self._language))
            await pace.done(characters=STRETCHED * len(candidate.record.content))
        look = await second_look(reranker, question.text, passages, [each.score for each in chosen])
        if look is None:
            return chosen
        again = [
            each._replace(score=each.score + gain, gain=gain, odds=odds)
            for each, gain, odds in zip(chosen, *look, strict=False)
        ]
        again.sort(key=lambda each: -each.score)
        lowest = again[-1].score
        return again + [each._replace(score=min(each.score, lowest)) for each in chosen[len(again) :]]


def _names_of(record: Record) -> list[str]:
    """The names in a record. A fact is "vehicle: Skoda", where a name would pass for the beginning of a sentence."""
    value = record.data.get("value") if record.layer == "fact" else None
    return names_in(record.content if value is None else f"is {value}")


def _asked_partitions(scope: Scope) -> list[Partition]:
    """The partitions that a question of this scope queries: the user's, if there is a user, and the org's."""
    shared = Partition(scope.org, "")
    return [scope.partition, shared] if scope.user else [shared]


def _candidate(index: PartitionIndex, found: Chosen) -> Candidate:
    """A record that was found, with its neighbours."""
    talk = index.talk()
    before, after = int(talk.before[found.row]), int(talk.after[found.row])
    return Candidate(
        found.record,
        index.records[before] if before >= 0 else None,
        index.records[after] if after >= 0 else None,
    )


def _score(
    index: PartitionIndex, question: Question, layers: Sequence[str], now: int, word_vectors: WordVectors | None
) -> Scored:
    """Score every row by what it is: notes by words and meaning, turns by all that is known about them."""
    alive, all_alive = index.mask(now, layers)
    words = index.words(question.terms)
    best_words = _best(words, alive, all_alive)
    word_factor = scoring.word_factor(best_words)
    prior = index.prior(question.at)
    asked, turns = Asked.of(question.text, index.language), None
    named: frozenset[str] = frozenset()
    cover = index.cover(question.terms)
    cover_factor = scoring.cover_factor(_best(cover, alive, all_alive))
    # Long texts have many words by chance, which BM25 allows for: episodes, and turns where bare words are looked for.
    long = ("episodic",) if asked.question else ("conversation", "episodic")
    if index.sessions and (rows := index.mask(now, long)[0]).any():
        counted = words * np.float32(scoring.cover_factor(best_words) / (cover_factor or 1.0))
        cover = np.where(rows, counted, cover)
    total: Scores = prior + words * np.float32(word_factor) + cover * np.float32(cover_factor)
    meaning, meaning_factor = None, 0.0
    if question.vector is not None:
        only = None if question.near is None else index.worth_comparing(question.near, words)
        meaning = index.meaning(question.vector, alive, question.earlier, only)
        meaning_factor = scoring.meaning_factor(_best(meaning, alive, all_alive))
        total += meaning * np.float32(meaning_factor)
    signs = turn_scoring.told_signs(index.talk(), asked) if asked.for_signs else None
    if signs is not None:
        total += signs
    if index.sessions and asked.question and (not layers or "conversation" in layers):
        among = index.mask(now, ("conversation",))[0] & alive
        turns = Turns(among, *turn_features(index, question, asked, among, words, meaning, word_vectors))
        named = turn_scoring.named_speakers(index.talk(), asked)
        noted = prior + (total - prior) * np.float32(scoring.BESIDE_TALK)
        total = np.where(among, prior + turn_scoring.talk_scores(turns.weights, turns.features), noted)
    in_time = _in_time(index, question, alive, total)
    if in_time is not None:
        total += in_time.astype(np.float32) * np.float32(scoring.TIME_ASKED)
    latest = scoring.latest(index.when) if phrasing.asks_for_latest(question.text, index.language) else None
    if latest is not None:
        total += latest * np.float32(scoring.LATEST_ASKED)
    if question.vector is None:
        total[words == 0] = NOT_FOUND
    if not all_alive:
        total[~alive] = NOT_FOUND
    echoes = _echoes(index, question, words, total) if index.sessions else frozenset()
    if echoes:
        total[list(echoes)] -= np.float32(turn_scoring.ECHO_LESS)
    return Scored(
        index=index, total=total, words=words, word_factor=word_factor, cover=cover, cover_factor=cover_factor,
        meaning=meaning, meaning_factor=meaning_factor, at=question.at, alive=alive, turns=turns, in_time=in_time,
        told=index.told(question.terms), echoes=echoes, named=named, signs=signs, latest=latest,
    )  # fmt: skip


def _echoes(index: PartitionIndex, question: Question, words: Scores, total: Scores) -> frozenset[int]:
    """Those of the best rows that only ask the same question, judged by the words they share with it."""
    records, most, stop = index.records, ECHO_WORDS * len(question.terms), stop_words(index.language)
    return frozenset(
        row
        for row in _ordered(total, ECHO_ROWS).tolist()
        if words[row] > 0
        and records[row].layer == "conversation"
        and phrasing.seems_to_ask(records[row].content)
        and len({*records[row].content.lower().split()} - stop) <= most
        and phrasing.is_echo(query_terms(records[row].content, index.language), question.terms)
    )


def _with_parts(
    index: PartitionIndex, question: Question, layers: Sequence[str], now: int, word_vectors: WordVectors | None
) -> Scored:
    """Score the rows by the question, or by one of its parts where that is clearly better."""
    whole = _score(index, question, layers, now, word_vectors)
    for part in question.parts:
        whole = _the_better(whole, _score(index, part, layers, now, word_vectors).total - np.float32(PART_LESS))
    return whole


def _the_better(first: Scored, other: Scores) -> Scored:
    """Give each row the better of two scores, and note what the other one added."""
    best = np.maximum(first.total, other)
    gained = best - first.total
    return replace(first, total=best, in_parts=gained if first.in_parts is None else first.in_parts + gained)


def _in_time(
    index: PartitionIndex, question: Question, alive: NDArray[np.bool_], total: Scores
) -> NDArray[np.bool_] | None:
    """Which rows fall into the time the question names, or are near it and refer to it; None if it names none."""
    span = question.span
    if span is None and question.event is not None:
        span = _span_by_event(index, *question.event, alive)
    if span is None:
        return None
    when = index.when
    inside: NDArray[np.bool_] = (when >= span[0]) & (when < span[1])
    if span[1] - span[0] <= SEASON_MS:
        soon = (alive & ~inside & (when >= span[0] - RECALLED_MS) & (when < span[1] + RECALLED_MS)).nonzero()[0]
        for row in soon[_ordered(total[soon], RECALLED_ROWS)].tolist():
            inside[row] = tells_of(index.time_told(row), span)
    return inside


def _span_by_event(index: PartitionIndex, event: Event, named: Question, alive: NDArray[np.bool_]) -> Span | None:
    """The time before or after an event, dated by the memory that tells of it best; None if none does."""
    told = np.where(alive, index.words(named.terms), np.float32(0))
    best = told.max(initial=0.0)
    if best <= 0:
        return None
    if named.vector is not None:
        told = told / best + np.maximum(index.meaning(named.vector, alive), 0)
    return span_around(int(index.when[int(np.argmax(told))]), event.side, event.count, event.unit)


def turn_features(
    index: PartitionIndex,
    question: Question,
    asked: Asked,
    turns: NDArray[np.bool_],
    words: Scores,
    meaning: Scores | None,
    word_vectors: WordVectors | None,
) -> tuple[str, NDArray[np.float32]]:
    """The row of weights for the turns of this index, and their features; rows that are not turns do not count."""
    talk = index.talk()
    words = np.where(turns, words, np.float32(0))
    heard = None if meaning is None else np.where(turns, meaning, np.float32(0))
    vectors = index.spaces.vectors.matrix(len(words)) if meaning is not None else None
    features = turn_scoring.talk_features(talk, asked, words, heard, vectors, index.posted(question.terms))
    row = talk.kind if meaning is not None else talk.kind + turn_scoring.WORDS_ALONE
    if word_vectors is not None and turn_scoring.weighs_kin(row):
        best = np.where(turns, turn_scoring.talk_scores(row, features), np.float32(NOT_FOUND))
        add_kin(index, question, features, _ordered(best, KIN_ROWS), word_vectors)
    return row, features


def add_kin(
    index: PartitionIndex,
    question: Question,
    features: NDArray[np.float32],
    rows: NDArray[np.intp],
    word_vectors: WordVectors,
) -> None:
    """Fill in how near the words of these turns, and of their neighbours, come to those of the question."""
    talk = index.talk()
    # Where nothing is known of the language, at least the question words of English do not count.
    language = "en" if index.language == "en" or spoken(index.language) is None else index.language
    asked = [word for word in dict.fromkeys(content_words(question.text, language)) if word not in talk.speakers]
    looked_at = np.zeros(len(index.records) + 1, np.bool_)  # the last element, -1, stands for no row
    looked_at[rows] = looked_at[talk.before[rows]] = looked_at[talk.after[rows]] = True
    compared = looked_at[:-1].nonzero()[0]
    near = index.kinship.nearest(compared.tolist(), lambda row: index.records[row].content, asked, word_vectors)
    nearest = np.zeros((len(index.records), len(asked)), np.float32)
    nearest[compared] = near
    features[turn_scoring.KIN, rows] = turn_scoring.kin_features(talk, rows, nearest, index.rarities(asked))


async def _read_much(index: PartitionIndex, question: Question) -> bool:
    """If many rows or long texts came since the last query, as for a user who was long away, read them in portions.

    Yields to other tasks in between, and returns whether it did. If the index keeps changing, what is left is read in
    one go.
    """
    for_signs = index.uptake.unsigned > 0 and _asks_for_signs(question, index.language)
    # Each portion takes three turns: words, places, signs. Twice that, since portions may be half full.
    turns = 6 * index.uptake.portions(for_signs=for_signs)
    turns += 6 if turns else 0  # the last ones may be small
    for _ in range(turns):
        if not await index.uptake.read_long() and not index.read_on(for_signs=for_signs):
            break
        await asyncio.sleep(0)
    if turns:
        await index.uptake.merge()
    return turns > 0


def _asks_for_signs(question: Question, language: str) -> bool:
    """Whether times or numbers count in favour of a turn, for this question or a part of it."""
    return any(Asked.of(each.text, language).for_signs for each in (question, *question.parts))


def _ordered(total: Scores, count: int) -> NDArray[np.intp]:
    """The best rows, best first; equal ones in the order of rows."""
    if len(total) > SORTED_ROWS and count < len(total):
        best = np.sort(np.argpartition(total, -count)[-count:])
        return best[np.argsort(-total[best], kind="stable")]
    return (-total).argsort(kind="stable")[:count]


def _best(scores: Scores, alive: NDArray[np.bool_], all_alive: bool) -> float:
    return float(scores.max() if all_alive else np.max(scores, where=alive, initial=0.0))


def _select(scored: Sequence[Scored], question: Question, test: Condition | None, limit: int, now: int) -> list[Chosen]:
    """The best rows that pass the filter, without repeated texts, the question itself, and what is not true yet."""
    # A filter may have to go far down; without one, only repeated texts are skipped.
    count = 2 * limit + 16 if test is None else max((len(each.total) for each in scored), default=0)
    ranked: Iterable[tuple[float, int, int]] = chain.from_iterable(
        [_ranked(each, place, count) for place, each in enumerate(scored)]
    )
    if len(scored) > 1:
        ranked = sorted(ranked, key=lambda entry: -entry[0])
    chosen: dict[str, Chosen] = {}
    records = [each.index.records for each in scored]
    for score, place, row in ranked:
        if score == NOT_FOUND or len(chosen) == limit:
            break
        record = records[place][row]
        content = record.content
        if content in chosen or (record.layer == "conversation" and _is_same_question(content, question)):
            continue
        if record.layer in OF_A_TIME and record.valid_from is not None and record.valid_from > now:
            continue
        if test is None or test.holds(record):
            chosen[content] = Chosen(score, record, place, row)
    return [*chosen.values()]


def _ranked(scored: Scored, place: int, count: int) -> Iterator[tuple[float, int, int]]:
    """The best rows of one index with their scores, best first.

    Equal ones by birth: the order of rows depends on what was read when, and so on how long the index is held.
    """
    rows = _ordered(scored.total, count)
    scores = scored.total[rows]
    if (scores[1:] == scores[:-1]).any():
        order = np.lexsort((scored.index.births[rows], -scores))
        rows, scores = rows[order], scores[order]
    return zip(scores.tolist(), repeat(place), rows.tolist(), strict=False)


def _hits(scored: Sequence[Scored], chosen: Sequence[Chosen], now: int) -> list[Hit]:
    return [
        Hit(each.record, each.score, number, Legs(scored[each.place], each), _near(scored[each.place].index, each, now))
        for number, each in enumerate(chosen, 1)
    ]


def _is_same_question(said: str, question: Question) -> bool:
    """Whether this is the question itself, asked before, which answers nothing."""
    return phrasing.seems_to_ask(said) and said.strip(" \n?").casefold() == question.text.strip(" \n?").casefold()


def _near(index: PartitionIndex, found: Chosen, now: int) -> tuple[Record, ...]:
    return index.neighbours(found.record, now) if found.record.layer == "conversation" else ()
