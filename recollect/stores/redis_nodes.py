"""All servers of a store: one, or the masters of a Cluster, and which of them holds which shard right now.

All keys of a shard carry its number as a hash tag, so a whole shard is on one server. A call that finds
a server unreachable, loading, moving or no longer the primary is retried for as long as the store is
patient, where repeating it is safe.
"""

from __future__ import annotations

import asyncio
import hashlib
from binascii import crc_hqx
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from recollect.errors import Busy, Corrupt, RecollectError, Unavailable
from recollect.stores.contract import closed_store
from recollect.stores.redis_node import BROKEN, NOT_SENT, Failure, Node, Packed, Reply, Value, packed
from recollect.stores.redis_url import Address, RedisUrl

SHARDS = 64
"""How many hash tags the keys are spread over. Written into every store, so it can never change."""
SLOTS = 16_384
TRY_S = 3.0
"""How long one try may take, so that a server that hangs leaves time to ask the one that replaces it."""
PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Pauses between tries; the last one repeats."""
KEYS_HELD = 4_096
"""Sets of keys cached in the form in which they are sent, about 700 bytes each."""

_SCRIPTS = Path(__file__).with_name("lua")
T = TypeVar("T")


class Script:
    """A Lua script: the parts it is made of, and the hash that Redis knows it by."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join((_SCRIPTS / f"{part}.lua").read_text(encoding="utf-8") for part in parts)
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


# ── what went wrong, and whether to try again ────────────────────────────────────────────────────


class Again(Enum):
    """Whether a call that failed may be sent once more."""

    ALWAYS = "it was not carried out"
    IF_REPEATABLE = "it may have been carried out"
    NEVER = "it would fail again"


_MEANINGS: dict[str, tuple[Again, type[RecollectError], str]] = {
    NOT_SENT: (Again.ALWAYS, Unavailable, "Redis cannot be reached; check that it runs and, with TLS, its certificate"),
    BROKEN: (Again.IF_REPEATABLE, Unavailable, "the connection to Redis broke; try again with the same key"),
    "LOADING": (Again.ALWAYS, Busy, "Redis is still loading its data; try again"),
    "BUSY": (Again.ALWAYS, Busy, "Redis is busy with a script; try again"),
    "READONLY": (Again.ALWAYS, Unavailable, "this Redis is a read-only replica; connect to the primary"),
    "MASTERDOWN": (Again.ALWAYS, Unavailable, "this replica has lost its primary; check the servers"),
    "CLUSTERDOWN": (Again.ALWAYS, Unavailable, "the Cluster has no master for some slots; check its nodes"),
    "MOVED": (Again.ALWAYS, Busy, "the Cluster is moving this slot; try again"),
    "TRYAGAIN": (Again.ALWAYS, Busy, "the Cluster is moving this slot; try again"),
    "UNBLOCKED": (Again.IF_REPEATABLE, Unavailable, "Redis changed its role; try again with the same key"),
    "OOM": (Again.NEVER, Unavailable, "Redis has reached maxmemory; forget something or give it more"),
    "MISCONF": (Again.NEVER, Unavailable, "Redis cannot write to its disk; see its log"),
    "NOREPLICAS": (Again.NEVER, Unavailable, "Redis has fewer replicas than it needs to accept writes"),
    "NOAUTH": (Again.NEVER, Unavailable, "Redis refused the login; check user and password"),
    "DENIED": (
        Again.NEVER,
        Unavailable,
        "Redis is in protected mode: give it a password, or set `protected-mode no` where only this network reaches it",
    ),
    "NOPERM": (Again.NEVER, Unavailable, "this Redis user may not do that; see docs/how-to/redis.md"),
    "EMPTIED": (
        Again.NEVER,
        Corrupt,
        "the Redis server was emptied: what was stored is gone. Restore its data, or see docs/how-to/redis.md",
    ),
}


def meaning_of(failure: Failure) -> tuple[Again, RecollectError]:
    """What a failure means to a caller."""
    known = _MEANINGS.get(failure.code)
    if known is None:
        return Again.NEVER, Unavailable(f"Redis refused the call ({failure.code}); see its log", field="store")
    again, make, text = known
    return again, make(text, field="store")


# ── all servers ──────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Shard:
    """Which server holds a shard, and how often that has changed to another run of a server."""

    slot: int
    node: Node
    run: str = ""
    turns: int = 0


class Nodes:
    """Every shard's server, looked up again when the shard moves."""

    def __init__(self, url: RedisUrl, patience_s: float) -> None:
        self.url = url
        self._patience_s = patience_s
        self._known: dict[Address, Node] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._map_lock = asyncio.Lock()
        self._maps_read = 0
        self._closed = False
        first = self._node(url.addresses[0])
        self._shards = [_Shard(crc_hqx(b"%d" % number, 0) % SLOTS, first) for number in range(SHARDS)]

    async def start(self) -> None:
        """Find out which server holds what."""
        if self.url.cluster:
            await self._persist(self._read_map, True)

    async def run(self, script: Script, shard: int, keys: Sequence[Value], *arguments: Value, **how: bool) -> Reply:
        """Run a script on the server that holds a shard; see `ask`."""
        return (await self.ask(script, shard, keys, *arguments, **how))[0]

    async def ask(
        self,
        script: Script,
        shard: int,
        keys: Sequence[Value],
        *arguments: Value,
        repeatable: bool = True,
        waits: bool = False,
    ) -> tuple[Reply, int]:
        """The script's reply, and how often the shard's server was replaced or restarted before it.

        `repeatable`: repeating it is safe, so a lost answer may be asked for again. `waits`: replicas must have it too.
        """

        given = (_packed_keys(tuple(keys)), *arguments)

        async def call() -> tuple[Reply, int]:
            try:
                return await self._at(shard, ("EVALSHA", script.sha, *given), waits)
            except Failure as failure:
                if failure.code != "NOSCRIPT":
                    raise
            return await self._at(shard, ("EVAL", script.text, *given), waits)

        return await self._persist(call, repeatable, shard)

    async def command(self, shard: int, *command: Value) -> Reply:
        """Run a plain command on the server that holds a shard. Only for what may be done twice."""

        async def call() -> Reply:
            return (await self._at(shard, command, waits=False))[0]

        return await self._persist(call, True, shard)

    async def everywhere(self, *command: Value) -> list[Reply]:
        """Run a command on each server that holds a shard; a refusal is a `Failure` in its place."""

        async def call() -> list[Reply]:
            answers = await asyncio.gather(*(node.call(command) for node in self.masters()))
            return [answer.replies[0] for answer in answers]

        return await self._persist(call, True)

    def masters(self) -> list[Node]:
        """The servers that hold shards, each once."""
        return list({shard.node.address: shard.node for shard in self._shards}.values())

    async def close(self) -> None:
        """Finish the calls already accepted, then hang up, whether or not the caller still waits."""
        self._closed = True
        await asyncio.shield(asyncio.gather(*(node.close() for node in self._known.values()), *self._leaving))

    # ── one try ──────────────────────────────────────────────────────────────────────────────────

    async def _at(self, number: int, command: Sequence[Value], waits: bool) -> tuple[Reply, int]:
        shard = self._shards[number]
        answer = await shard.node.call(command, waits=waits)
        reply = answer.replies[0]
        if _is(reply, "ASK"):
            # The slot is being moved and these keys are there already: ask there, this once.
            answer = await self._named(shard.node, reply.address).call(("ASKING",), command, waits=waits)
            reply = answer.replies[1]
        if _is(reply, "MOVED"):
            shard.node = self._named(shard.node, reply.address)
        if isinstance(reply, Failure):
            raise reply
        if waits and answer.replicas < self.url.wait_replicas:
            text = "written, but too few replicas have it; send it again with the same key"
            raise Unavailable(text, field="store")
        if answer.run != shard.run:
            shard.turns += bool(shard.run)
            shard.run = answer.run
        return reply, shard.turns

    def _node(self, address: Address) -> Node:
        if address not in self._known:
            self._known[address] = Node(address, self.url, min(TRY_S, self._patience_s))
        return self._known[address]

    def _named(self, by: Node, address: Address) -> Node:
        """The server at an address that another one named. Without a host it is the host of the one that was asked."""
        host, port = address
        return self._node((host or by.address[0], port))

    # ── trying again ─────────────────────────────────────────────────────────────────────────────

    async def _persist(self, call: Callable[[], Awaitable[T]], repeatable: bool, shard: int | None = None) -> T:
        clock = asyncio.get_running_loop().time
        until = clock() + self._patience_s
        tries = 0
        while True:
            if self._closed:
                raise closed_store()
            maps_read = self._maps_read
            try:
                return await call()
            except Failure as failure:
                again, error = meaning_of(failure)
                pause = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                hopeless = again is Again.NEVER or (again is Again.IF_REPEATABLE and not repeatable)
                if hopeless or clock() + pause > until:
                    raise error from None
                moved = failure.code == "MOVED"
            if not moved or tries:  # a MOVED reply already gave the new address, unless servers disagree about it
                await asyncio.sleep(pause)
                await self._look_around(shard, maps_read)
            tries += 1

    async def _look_around(self, shard: int | None, maps_read: int) -> None:
        """After trouble, look again: the primary may be another server now."""
        asked = None if shard is None else self._shards[shard].node
        if asked is not None:
            await asked.hang_up()
        if not self.url.cluster:
            return
        async with self._map_lock:
            # Callers that ran into the same trouble share one look-up.
            if self._maps_read == maps_read:
                with suppress(Failure):
                    await self._read_map(doubted=asked)

    async def _read_map(self, doubted: Node | None = None) -> None:
        """Ask all servers at once which one holds which slots, and believe the first that knows all of them.

        A server that was in trouble or knows less is believed only if there is no other: cut off from the Cluster, or
        removed from it, it goes on answering.
        """
        for address in self.url.addresses:
            self._node(address)
        asked = [asyncio.create_task(_slots(node)) for node in self._known.values()]
        for task in asked:
            task.add_done_callback(_heard)
        trouble = Failure(NOT_SENT)
        poor: list[tuple[Node, Sequence[Any]]] = []
        for first in asyncio.as_completed(asked):
            try:
                node, ranges = await first
            except Failure as failure:
                trouble = failure
                continue
            if isinstance(ranges, Failure):
                trouble = ranges
            elif node is doubted or not self._is_whole(ranges):
                poor.append((node, ranges))
            else:
                self._take_map(node, ranges)
                self._let_go()
                return
        if not poor:
            raise trouble
        self._take_map(*max(poor, key=lambda answer: sum(high - low + 1 for low, high, *_ in answer[1])))

    def _is_whole(self, ranges: Sequence[Any]) -> bool:
        """Whether a map names a server for every shard."""
        return all(any(low <= shard.slot <= high for low, high, *_ in ranges) for shard in self._shards)

    def _take_map(self, asked: Node, ranges: Sequence[Any]) -> None:
        for low, high, (host, port, *_), *_ in ranges:
            node = self._named(asked, (host.decode() if host else "", port))
            for shard in self._shards:
                if low <= shard.slot <= high:
                    shard.node = node
        self._maps_read += 1

    def _let_go(self) -> None:
        """Forget servers that hold nothing and that the URL does not name: others may have their addresses by now."""
        used = {shard.node.address for shard in self._shards}.union(self.url.addresses)
        for address in self._known.keys() - used:
            leaving = asyncio.create_task(self._known.pop(address).close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)


@lru_cache(maxsize=KEYS_HELD)
def _packed_keys(keys: tuple[Value, ...]) -> Packed:
    """The keys of a script, preceded by their number."""
    return packed((len(keys), *keys))


def _is(reply: Reply, code: str) -> bool:
    return isinstance(reply, Failure) and reply.code == code


async def _slots(node: Node) -> tuple[Node, Any]:
    """A server, and what it answers to which server holds which slots."""
    (ranges,) = (await node.call(("CLUSTER", "SLOTS"))).replies
    return node, ranges


def _heard(task: asyncio.Task[Any]) -> None:
    """Retrieve the failure of an answer that nobody waits for any more: it is not news."""
    if not task.cancelled():
        task.exception()
