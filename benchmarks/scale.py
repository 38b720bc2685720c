"""Recollect alone with many users: cost follows the user, not the store.

One large file and one small one are filled the same way and queried in turn, call by call.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dataset import Question, World, exact, recall, user_name
from peers import Floats, Lookup, Memory
from peers.recollect import ORG, Peer
from timing import Figures, Samples, aim, say, table

from recollect.filters import Reach
from recollect.records import Changes, Record, Scope, Vector, system_clock
from recollect.stores import open_store
from recollect.stores.contract import OPERATIONS_MAX, VECTOR_SEARCH, Store

K = 10
EACH = 100
"""How many memories an ordinary user has."""
SMALL = 10_000
HEAVY = 50_000
HEAVY_USER = 10_000_000
"""The number of the one user with very many memories, far from all other numbers."""
SIZES = {"full": 1_000_000, "quick": 100_000}
IN_FLIGHT = 16
"""Concurrent commits while loading."""
ASKED_USERS = 300


@dataclass
class Nearest:
    """The k nearest of everything seen so far, for several questions at once."""

    vectors: Floats
    ids: list[list[str]]
    scores: Floats

    @classmethod
    def to(cls, vectors: Floats) -> Nearest:
        return cls(vectors, [[] for _ in vectors], np.full((len(vectors), K), -2, dtype=np.float32))

    def see(self, memories: Sequence[Memory]) -> None:
        scores = np.stack([memory[2] for memory in memories]) @ self.vectors.T
        for place in np.flatnonzero(scores.max(axis=0) > self.scores[:, -1]).tolist():
            column = scores[:, place]
            rows = np.argsort(-column)[:K].tolist()
            old = zip(self.scores[place].tolist(), self.ids[place], strict=False)
            new = ((float(column[row]), memories[row][0]) for row in rows)
            best = sorted([*old, *new], reverse=True)[:K]
            self.ids[place] = [id for _, id in best]
            self.scores[place, : len(best)] = [score for score, _ in best]


async def run(world: World, folder: Path, size: str) -> dict[str, Any]:
    """Run everything about size: print its tables and return the figures."""
    total = SIZES[size]
    lookup = Lookup()
    large = Peer(folder / f"large-{size}", lookup, world.dimensions)
    small = Peer(folder / "small", lookup, world.dimensions)
    asked_of_org = [question for number in range(50) for question in world.questions(number, EACH, 1)]
    truth = Nearest.to(np.stack([question.vector for question in asked_of_org]))
    await fill(small, world, SMALL, heavy=0, truth=None)
    await fill(large, world, total, heavy=HEAVY, truth=truth)
    print(f"\nRecollect alone: {total:,} memories, {(total - HEAVY) // EACH + 1:,} users, one of them with {HEAVY:,}\n")
    result: dict[str, Any] = {"memories": total, "bytes_per_memory": bytes_of(large) / total}
    await small.open()
    await large.open()
    result |= await ask_users(small, large, world, total)
    result["heavy"] = asdict(await ask_heavy(large, world))
    await large.close()
    result["open"] = asdict(await open_and_answer(large, world))
    result["org"] = await ask_org(large, asked_of_org, truth)
    await small.close()
    show(result, total)
    return result


# ── Loading ──────────────────────────────────────────────────────────────────────────────────────


async def fill(peer: Peer, world: World, total: int, *, heavy: int, truth: Nearest | None) -> None:
    """Write a whole file directly through the store, one commit for each block of a user's memories."""
    store = await open_store(f"sqlite:///{peer.path}")
    users = [*range((total - heavy) // EACH), *([HEAVY_USER] if heavy else [])]
    started, written, told = time.perf_counter(), 0, 0
    waiting: set[asyncio.Task[int]] = set()
    for number in users:
        memories = world.memories(number, heavy if number == HEAVY_USER else EACH)
        if truth:
            truth.see(memories)
        for start in range(0, len(memories), OPERATIONS_MAX):
            changes = changes_of(user_name(number), memories[start : start + OPERATIONS_MAX], peer.embedder.name)
            waiting.add(asyncio.create_task(store.commit(changes, system_clock())))
            if len(waiting) >= IN_FLIGHT:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        written += len(memories)
        if written - told >= max(total // 10, SMALL):
            told = written
            rate = written / (time.perf_counter() - started)
            say(f"loading: {written:,} of {total:,}, {rate:,.0f} a second")
    await asyncio.gather(*waiting)
    await store.close()


def changes_of(user: str, memories: Sequence[Memory], model: str) -> Changes:
    scope, now = Scope(ORG, user), system_clock()
    return Changes(
        scope.partition,
        put=tuple(
            Record(id, "long_term", scope, text, created_at=now, vector=Vector(model, packed(vector)))
            for id, text, vector in memories
        ),
    )


def packed(vector: Floats) -> bytes:
    """A vector as the store keeps it."""
    return vector.astype("<f2").tobytes()


def bytes_of(peer: Peer) -> int:
    """The size of the file including its log."""
    return sum(path.stat().st_size for path in peer.path.parent.glob(f"{peer.path.name}*"))


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


def learn(peer: Peer, questions: Sequence[Question]) -> None:
    for question in questions:
        peer.embedder.arrays[question.text] = question.vector
        peer.embedder.arrays[question.plain] = question.vector


def searching(peer: Peer, question: Question) -> Callable[[], Awaitable[list[str]]]:
    return lambda: peer.search(question.user, question.text, question.vector, K)


async def ask_users(small: Peer, large: Peer, world: World, total: int) -> dict[str, Any]:
    """First touch and warm search of ordinary users, in the small file and in the large one."""
    spread = {
        "small": np.linspace(0, SMALL // EACH - 1, ASKED_USERS).astype(int).tolist(),
        "large": np.linspace(0, (total - HEAVY) // EACH - 1, ASKED_USERS).astype(int).tolist(),
    }
    peers = {"small": small, "large": large}
    samples: dict[str, Samples] = {f"{touch}_{name}": Samples() for touch in ("first", "warm") for name in peers}
    say(f"{ASKED_USERS} users of each file: first touch, then warm")
    gc.collect()
    seen: set[tuple[str, int]] = set()
    for place in range(ASKED_USERS):
        for name, peer in peers.items():
            number = spread[name][place]
            question = world.questions(number, EACH, 1)[0]
            learn(peer, [question])
            touch = "warm" if (name, number) in seen else "first"
            seen.add((name, number))
            await samples[f"{touch}_{name}"].measure(searching(peer, question))
    for place in range(ASKED_USERS):
        for name, peer in peers.items():
            question = world.questions(spread[name][place], EACH, 2)[1]
            learn(peer, [question])
            await samples[f"warm_{name}"].measure(searching(peer, question))
    return {key: asdict(taken.figures()) for key, taken in samples.items() if taken.wall_ns}


async def ask_heavy(peer: Peer, world: World, count: int = 60) -> Figures:
    """The user with very many memories, warm, and how exact the answers are."""
    memories = world.memories(HEAVY_USER, HEAVY)
    questions = world.questions(HEAVY_USER, HEAVY, count)
    learn(peer, questions)
    say(f"the user with {HEAVY:,} memories")
    await searching(peer, questions[0])()
    samples = Samples()
    for question in questions:
        await samples.measure(searching(peer, question))
    shares = []
    for question in questions:
        found = await searching(peer, replace(question, text=question.plain))()
        shares.append(recall(found, exact(memories, question.vector, K)))
    return replace(samples.figures(), recall=statistics.fmean(shares))


async def open_and_answer(peer: Peer, world: World, rounds: int = 20) -> Figures:
    """From a closed file to the first answer, without imports."""
    questions = [world.questions(number, EACH, 3)[2] for number in range(rounds)]
    learn(peer, questions)
    samples = Samples()

    async def from_closed(question: Question) -> None:
        await peer.open()
        await searching(peer, question)()

    for question in questions:
        await samples.measure(lambda question=question: from_closed(question))  # type: ignore[misc]
        await peer.close()
    return samples.figures()


async def ask_org(peer: Peer, questions: Sequence[Question], truth: Nearest) -> dict[str, Any] | None:
    """Questions over all users at once. The first one pays for everything that has to be read."""
    store = await open_store(f"sqlite:///{peer.path}")
    try:
        if VECTOR_SEARCH not in store.abilities:
            return None
        say("org-wide search")
        first, samples = Samples(), Samples()
        shares = []
        for place, question in enumerate(questions):
            vector = Vector(peer.embedder.name, packed(question.vector))
            found = await (samples if place else first).measure(lambda vector=vector: nearest_in_org(store, vector))  # type: ignore[misc]
            shares.append(recall(found, set(truth.ids[place])))
    finally:
        await store.close()
    warm = replace(samples.figures(), recall=statistics.fmean(shares))
    return {"first": asdict(first.figures()), "warm": asdict(warm)}


async def nearest_in_org(store: Store, vector: Vector) -> list[str]:
    reach = Reach(ORG, None, ("long_term",))
    found = await store.search(reach, text=None, vector=vector, limit=K, now=system_clock())
    return [candidate.id for candidate in found["vector"][:K]]


# ── What is printed ──────────────────────────────────────────────────────────────────────────────


def show(result: dict[str, Any], total: int) -> None:
    small, large = f"of {SMALL:,}", f"of {total:,}"
    times_row = [
        ("user search, warm", small, "warm_small", ""),
        ("user search, warm", large, "warm_large", growth(result, "warm")),
        ("first touch of a user", small, "first_small", ""),
        ("first touch of a user", large, "first_large", growth(result, "first")),
        (f"user with {HEAVY:,} memories", large, "heavy", aim("3 ms CPU", result["heavy"]["cpu_ms"] <= 3)),
        ("open and first answer", large, "open", aim("5 ms", result["open"]["p50_ms"] <= 5)),
    ]
    rows = [figures_row(f"{what}, {of}", result[key], verdict) for what, of, key, verdict in times_row]
    if result["org"]:
        warm = result["org"]["warm"]
        met = warm["cpu_ms"] <= 8 and warm["recall"] >= 0.99
        rows.append(figures_row(f"org-wide search, {large}, first", result["org"]["first"], ""))
        rows.append(figures_row(f"org-wide search, {large}", warm, aim("8 ms CPU at 0.99", met)))
    print(table("size", ["", "p50 ms", "p95 ms", "CPU ms", "recall@10", "aim"], rows))
    each = result["bytes_per_memory"]
    print(f"  on disk: {each:,.0f} bytes per memory, all included ({aim('1,600', each <= 1_600)})")
    if not result["org"]:
        print("  org-wide search: this store does not offer it")


def figures_row(label: str, figures: dict[str, Any], verdict: str) -> list[str]:
    found = figures["recall"]
    times = [f"{figures[name]:,.3f}" for name in ("p50_ms", "p95_ms", "cpu_ms")]
    return [label, *times, "" if found is None else f"{found:.3f}", verdict]


def growth(result: dict[str, Any], touch: str) -> str:
    ratio = result[f"{touch}_large"]["p50_ms"] / result[f"{touch}_small"]["p50_ms"]
    return f"{ratio:.2f}x small, " + aim("2x", ratio <= 2)
