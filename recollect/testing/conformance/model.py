"""Random operations, given to the store under test and to the in-memory model: all answers agree.

What the contract leaves open is not compared: where a page ends, the order within one revision,
the order of jobs that fall due together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from recollect.errors import RecollectError
from recollect.filters import Filter, Test
from recollect.records import DAY_MS, HOUR_MS, Changes, Job, Partition, Record, Vector
from recollect.stores.contract import Delta, Mark, Store, forget_whole
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.conformance.stage import ANN, BOB, LEASE_S, NOW, Stage, listed, message, work

IDS = tuple(f"r{n}" for n in range(8))
JOBS = ("j1", "j2", "j3")
KEYS = ("k1", "k2", "k3", "k4")
LAYERS = ("conversation", "fact", "past")
SESSIONS = ("", "s1", "s10")
OPERATIONS = 250
CALLERS = 12
ROUNDS = 40

Answer = Any
Operation = Callable[[Store], Awaitable[Answer]]


class ModelConformance(Stage):
    """The in-memory store is the model that every other store is compared with."""

    @pytest.mark.parametrize("seed", range(8))
    async def test_random_operations_give_the_same_answers_as_the_model(self, store: Store, seed: int) -> None:
        model = InMemoryStore()
        play = Play(random.Random(seed))
        for turn in range(OPERATIONS):
            name, operation = play.next()
            expected, answer = await _answer(operation, model), await _answer(operation, store)
            play.remember(expected)
            assert answer == expected, f"seed {seed}, operation {turn}: {name}"

    @pytest.mark.parametrize("seed", range(2))
    async def test_callers_who_come_at_once_each_get_the_answers_of_the_model(self, store: Store, seed: int) -> None:
        model = InMemoryStore()
        users = [(Partition("acme", f"user {n}"),) for n in range(CALLERS)]
        plays = [Play(random.Random(f"{seed} {n}"), own) for n, own in enumerate(users)]
        for turn in range(ROUNDS):
            operations = [play.next() for play in plays]
            answers = await asyncio.gather(*(_answer(operation, store) for _, operation in operations))
            for play, (name, operation), answer in zip(plays, operations, answers, strict=True):
                expected = await _answer(operation, model)
                play.remember(expected)
                assert answer == expected, f"seed {seed}, round {turn}: {name}"


async def _answer(operation: Operation, store: Store) -> Answer:
    """What a call returns; for a refusal, its class and the field it names."""
    try:
        return await operation(store)
    except RecollectError as error:
        return type(error).__name__, error.field


@dataclass
class Play:
    """Makes up the next operation, from what earlier ones have told a caller.

    With partitions of its own it is one of many, so operations on the whole store are left out.
    """

    chance: random.Random
    own: tuple[Partition, ...] = ()
    now: int = NOW
    read: list[Record] = field(default_factory=list)
    marks: list[tuple[Partition, Mark]] = field(default_factory=list)
    claimed: list[Job] = field(default_factory=list)
    commits: list[Changes] = field(default_factory=list)

    def next(self) -> tuple[str, Operation]:
        self.now += self.chance.choice((0, 0, 1, 10, 1_000, HOUR_MS, -5))
        makers = {
            self._commit: 12, self._add: 12 if self.own else 4, self._get: 4, self._list: 4, self._changes: 4,
            self._forget_part: 1, self._purge: 1, self._forget_whole: 0.3,
        } | ({} if self.own else {self._claim: 3, self._survey: 1})  # fmt: skip
        (maker,) = self.chance.choices(list(makers), list(makers.values()))
        return maker()

    def remember(self, answer: Answer) -> None:
        """Keep what a caller could keep, so that later operations are sometimes stale."""
        kept = answer if isinstance(answer, list) else []
        self.read += [each for each in kept if isinstance(each, Record)]
        self.claimed += [each for each in kept if isinstance(each, Job)]
        if isinstance(answer, dict) and "mark" in answer:
            self.marks.append((answer["partition"], answer["mark"]))

    def _partition(self) -> Partition:
        return self.chance.choice(self.own or (ANN, ANN, ANN, BOB))

    def _some(self, names: Sequence[str], most: int) -> tuple[str, ...]:
        return tuple(self.chance.sample(names, self.chance.randint(0, most)))

    def _record(self, id: str, partition: Partition) -> Record:
        chance = self.chance
        mine = [record for record in self.read[-30:] if record.id == id and record.scope.partition == partition]
        record = chance.choice(mine) if mine and chance.random() < 0.7 else message(id, partition=partition)
        layer, session = (record.layer, record.scope.session) if chance.random() < 0.8 else ("", "")
        return record.with_(
            content=chance.choice("abc"),
            layer=layer or chance.choice(LAYERS),
            scope=replace(record.scope, session=session or chance.choice(SESSIONS)),
            metadata=chance.choice(({}, {"n": 1}, {"n": 2.0})),
            vector=chance.choice((None, Vector("m", b"\x00\x3c"))),
            expires_at=chance.choice((*(None,) * 6, self.now, self.now + 10, self.now + HOUR_MS)),
        )

    def _commit(self) -> tuple[str, Operation]:
        chance, partition, now = self.chance, self._partition(), self.now
        if self.commits and chance.random() < 0.1:
            changes = chance.choice(self.commits[-10:])
        else:
            ids = self._some(IDS, 4)
            cut = chance.randint(0, len(ids)) if chance.random() < 0.5 else len(ids)
            held = [job for job in self.claimed[-4:] if job.partition == partition]
            finish = (chance.choice(held),) if held and chance.random() < 0.4 else ()
            again = tuple(replace(job, due_at=now + 50) for job in finish if chance.random() < 0.3)
            fresh = (work(id, partition, ids[:1], now + chance.choice((0, 0, 20))) for id in self._some(JOBS, 1))
            changes = Changes(
                partition,
                put=tuple(self._record(id, partition) for id in ids[:cut]),
                drop=ids[cut:],
                enqueue=again or tuple(fresh),
                finish=finish,
                key=chance.choice((chance.choice(KEYS), f"free {len(self.commits)}", None, None, None)),
                needs=self._some(IDS, 1) if chance.random() < 0.2 else (),
                epoch=chance.choice((1, 2)) if chance.random() < 0.1 else None,
            )
            self.commits.append(changes)
        return f"commit {changes} at {now}", lambda store: store.commit(changes, now)

    def _add(self) -> tuple[str, Operation]:
        """A commit like most: something new, and the work that comes with it."""
        partition, now, name = self._partition(), self.now, f"new {len(self.commits)}"
        job = work(f"job of {name}", partition, (name,), now)
        changes = Changes(partition, put=(message(name, partition=partition),), enqueue=(job,), key=f"key of {name}")
        self.commits.append(changes)
        return f"add {changes} at {now}", lambda store: store.commit(changes, now)

    def _get(self) -> tuple[str, Operation]:
        partition, ids, now = self._partition(), self._some(IDS, len(IDS)), self.now
        return f"get {ids} at {now}", lambda store: store.get(partition, ids, now)

    def _where(self) -> Filter:
        chance = self.chance
        born = (chance.randint(1, 40), chance.randint(0, 3))
        return Filter(
            self._partition(),
            layers=self._some(LAYERS, 2) if chance.random() < 0.5 else (),
            session=chance.choice((None, None, None, None, *SESSIONS)),
            ids=self._some(IDS, 5) if chance.random() < 0.2 else None,
            born_after=born if chance.random() < 0.2 else None,
            born_before=(born[0] + 20, 1) if chance.random() < 0.2 else None,
            test=Test("metadata.n", chance.choice(("eq", "gte", "lt")), 1) if chance.random() < 0.2 else None,
        )

    def _list(self) -> tuple[str, Operation]:
        where, now, newest_first, limit = self._where(), self.now, self.chance.random() < 0.5, self.chance.randint(1, 5)
        return f"list {where} at {now}", lambda store: listed(store, where, now, newest_first, limit)

    def _changes(self) -> tuple[str, Operation]:
        partition, mark = self._partition(), None
        if self.marks and self.chance.random() < 0.8:
            partition, mark = self.chance.choice(self.marks[-12:])
        return f"changes since {mark}", lambda store: _told(store, partition, mark)

    def _claim(self) -> tuple[str, Operation]:
        now, lease_s = self.now, self.chance.choice((0.005, LEASE_S))

        async def claim(store: Store) -> list[Job]:
            return sorted(await store.claim(now, lease_s, 100), key=lambda job: (job.partition, job.id))

        return f"claim at {now}", claim

    def _forget_part(self) -> tuple[str, Operation]:
        where, now = self._where(), self.now
        if where.is_whole:
            where = replace(where, session="s1")
        return f"forget {where} at {now}", lambda store: _forgotten(store, where, now)

    def _purge(self) -> tuple[str, Operation]:
        now, age = self.now, self.chance.choice((0, 5, HOUR_MS, DAY_MS))
        where = Filter(self._partition(), dead_before=now - age)
        return f"purge {where}", lambda store: _forgotten(store, where, now)

    def _forget_whole(self) -> tuple[str, Operation]:
        partition, now = self._partition(), self.now
        return f"forget all of {partition}", lambda store: forget_whole(store, partition, now)

    def _survey(self) -> tuple[str, Operation]:
        now = self.now
        return f"survey at {now}", lambda store: _surveyed(store, now)


async def _told(store: Store, partition: Partition, mark: Mark | None) -> dict[str, Answer]:
    delta: Delta = await store.changes(partition, mark)
    return {
        "partition": partition,
        "mark": delta.mark,
        "put": sorted(delta.put, key=lambda record: record.id),
        "dropped": () if delta.reset else sorted(delta.dropped),
        "reset": delta.reset,
        "more": delta.more,
    }


async def _forgotten(store: Store, where: Filter, now: int) -> tuple[int, int | None]:
    count = 0
    while True:
        gone = await store.forget(where, now, 3)
        count += gone.count
        if gone.done:
            return count, gone.next_at


async def _surveyed(store: Store, now: int) -> Answer:
    survey = await store.survey(now)
    records = {layer: count for layer, count in survey.records.items() if count}
    return list(await store.partitions()), replace(survey, records=records, bytes=None)
