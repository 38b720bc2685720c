"""The calls of the front door as scenes: each can be interrupted anywhere, and must then be whole or absent.

The stage is a user with something of everything; a scene is one call on it. `state_of` returns
what the file holds for that user, so that before, after and anything in between can be told apart.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from recollect.errors import NotFound
from recollect.memory import Memory
from recollect.session import Session
from recollect.stores import open_store
from recollect.stores.contract import Store
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.faults import DieAt, FailingDisk, SteppedStore
from recollect.user import User

Scene = Callable[[Memory, User, Session], Awaitable[object]]
State = tuple[frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]]

BATCH: list[dict[str, Any]] = [
    {"role": "user", "content": f"In house number {n} lives a cat.", "id": f"cat{n}"} for n in range(8)
]
MEMORIES: list[dict[str, Any]] = [{"content": f"The train to city {n} leaves at {n} o'clock."} for n in range(5, 10)]


async def set_stage(memory: Memory, name: str) -> None:
    """Give a user a conversation, a summary, memories with a past, and a task at hand."""
    user = memory.user(name)
    chat = user.session("chat")
    await chat.add_messages(
        [{"role": "user", "content": f"I planted tree {n} in the garden.", "id": f"tree{n}"} for n in range(6)]
    )
    await user.add_memory("Ann drinks green tea.", id="tea", idempotency_key="tea")
    await user.add_memory("Ann plays the violin on Sundays.", id="violin", idempotency_key="violin")
    await memory.work()
    await user.update_memory("tea", content="Ann drinks black tea now.")
    await chat.compress()
    await chat.working.set({"step": 1, "done": ["plan"]})
    await memory.work()


async def _forget_again(user: User, id: str) -> None:
    try:
        await user.forget(id)
    except NotFound:
        pass  # it was forgotten before the answer could be given


SCENES: dict[str, Scene] = {
    "add_message": lambda memory, user, chat: chat.add_message("user", "Tea, please.", id="please"),
    "add_interaction": lambda memory, user, chat: chat.add_interaction("Hi.", "Hello!", idempotency_key="greeting"),
    "add_messages": lambda memory, user, chat: chat.add_messages(BATCH, idempotency_key="cats"),
    "add_memory": lambda memory, user, chat: user.add_memory("Ann has a sister.", idempotency_key="sister"),
    "add_memories": lambda memory, user, chat: user.add_memories(MEMORIES, idempotency_key="trains"),
    "update_memory": lambda memory, user, chat: user.update_memory("tea", content="Ann drinks no tea at all."),
    "forget a message": lambda memory, user, chat: _forget_again(user, "tree5"),
    "forget a memory": lambda memory, user, chat: _forget_again(user, "tea"),
    "forget by filter": lambda memory, user, chat: user.forget(where={"role": "user"}),
    "rename": lambda memory, user, chat: chat.rename("Trees"),
    "compress": lambda memory, user, chat: chat.compress(),
    "working.set": lambda memory, user, chat: chat.working.set({"step": 2}),
    "working.push": lambda memory, user, chat: chat.working.push("done", "dig"),
    "working.clear": lambda memory, user, chat: chat.working.clear(),
    "delete": lambda memory, user, chat: chat.delete(),
    "branch": lambda memory, user, chat: chat.branch("tree3", "other chat"),
    "erase": lambda memory, user, chat: user.erase(),
}
"""Calls that write, by name; each runs on a stage that is set."""

REPEATABLE = {
    "add_message", "add_interaction", "add_messages", "add_memory", "add_memories", "forget a message",
    "forget a memory", "rename", "working.clear", "delete", "erase",
}  # fmt: skip
"""Calls that may be sent again if no answer came, and then have happened only once."""


def opened(url: str | Path | Store, clock: ManualClock | None = None, **changes: Any) -> Memory:
    """A memory in which nothing moves by itself, neither the clock nor a worker."""
    given = {"worker": False} | changes
    return Memory.open(url, embedder=HashingEmbedder(), clock=clock or ManualClock(), **given)


async def play(memory: Memory, scene: str, name: str = "ann") -> None:
    """Make one call on a stage that was set."""
    user = memory.user(name)
    await SCENES[scene](memory, user, user.session("chat"))


async def play_until(path: Path, scene: str, fault: str, at: int) -> None:
    """Make one call and hit a fault at its n-th step: `verb` (of the store), or one of the disk's."""
    store: Any = await open_store(path)
    if fault == "verb":
        store = SteppedStore(store, DieAt(at))
    async with opened(store) as memory:
        if fault != "verb":
            FailingDisk(at, fault)
        await play(memory, scene)


def state_of(path: Path, user: str = "ann") -> State:
    """What the file holds for a user: living records, and the jobs that wait. Read with SQLite alone.

    Seals are left out: they differ only by chance, and hold nothing.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        records = db.execute(
            """select id, layer, session, payload, model is not null, slot is not null
               from records join partitions using (part, epoch) where usr = ? and dropped = 0 and layer != 'seal'""",
            (user,),
        ).fetchall()
        jobs = db.execute("select kind, refs from jobs join partitions using (part) where usr = ?", (user,)).fetchall()
    readable = (
        (str(id), layer, session, _comparable(payload), f"vector {has_vector}, code {has_code}")
        for id, layer, session, payload, has_vector, has_code in records
    )
    return frozenset(readable), frozenset(jobs)


def is_whole(state: State, after: State) -> bool:
    """Whether a call that was cut off has done all it should.

    The job that looks again after a forgetting may still wait: the call ends it as its last step.
    """
    records, jobs = state
    return (records, frozenset(job for job in jobs if job[0] != "forget")) == after


def _comparable(payload: str) -> str:
    """A payload without what a running number or chance put into it."""
    body = json.loads(payload)
    body.get("data", {}).get("covers", {}).pop("born", None)
    body.get("data", {}).pop("call", None)
    return json.dumps(body, sort_keys=True)


def problems_of(path: Path) -> list[str]:
    """What SQLite itself finds wrong with a file."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("pragma integrity_check") if row[0] != "ok"]
