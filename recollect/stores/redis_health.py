"""How far a Redis server can be trusted: its version, whether it keeps what it is given, whether it evicts it.

Queried from every node that holds data, when a store is opened and whenever somebody asks how it is. What a
service does not let us query is reported as unknown or as off, never assumed to be fine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.errors import Unavailable
from recollect.stores.contract import FAIL, WARN, Finding, clock_finding
from recollect.stores.redis_node import Failure, fields_of
from recollect.stores.redis_nodes import Nodes

OLDEST = (6, 2)
KEEPS_ALL = "noeviction"
UNKNOWN = "unknown"
FULL = 0.8
"""How full a server may be before it is time to look at it."""
COMPACT_PAUSE_S = 0.1
COMPACT_LIMIT_S = 600.0
COMPACT_TRIES = 20
"""How often others may start rewriting the files just before us."""
_PROMISES = {
    "always": "on disk (AOF, fsync) when a call returns",
    "everysec": "on disk within a second (AOF everysec): up to 2 s of writes are lost when the server dies",
    "no": "on disk when the operating system flushes (AOF without fsync): about 30 s of writes may be lost",
    "off": "in the server's memory (AOF is off): writes since the last snapshot are lost when it restarts",
    UNKNOWN: "AOF is on; how often it syncs could not be read",
}


@dataclass(frozen=True, slots=True)
class Health:
    """One node, or the worst of several."""

    name: str
    version: str
    aof: str
    eviction: str
    is_cluster: bool
    is_replica: bool

    @property
    def durability(self) -> str:
        return _PROMISES.get(self.aof, _PROMISES[UNKNOWN])

    @property
    def is_durable(self) -> bool:
        return self.aof != "off"

    def warnings(self) -> list[str]:
        """What an operator should know before trusting this server with memories."""
        found = []
        if not self.is_durable:
            found.append("AOF is off: memories are lost when the server restarts (set `appendonly yes`)")
        if self.eviction != KEEPS_ALL:
            found.append(f"maxmemory-policy is {self.eviction}: the server may evict memories (set `{KEEPS_ALL}`)")
        if self.is_replica:
            found.append("this server is a replica: it is read-only")
        return found


async def examine(nodes: Nodes) -> Health:
    """The health of the least careful node."""
    infos = await nodes.everywhere("INFO")
    syncs = await nodes.everywhere("CONFIG", "GET", "appendfsync")
    found = [_health(fields_of(info), sync) for info, sync in zip(infos, syncs, strict=True)]
    for health in found:
        version = tuple(int(part) for part in health.version.split(".")[:2] if part.isdigit())
        if health.version != UNKNOWN and version < OLDEST:
            raise Unavailable(f"Redis {health.version} is too old; 6.2 or later is needed", field="store")
    careless = ["always", "everysec", UNKNOWN, "no", "off"]
    evicting = next((health.eviction for health in found if health.eviction != KEEPS_ALL), KEEPS_ALL)
    worst = max(found, key=lambda health: careless.index(health.aof))
    return Health(
        worst.name,
        worst.version,
        worst.aof,
        evicting,
        worst.is_cluster,
        any(health.is_replica for health in found),
    )


def _health(info: dict[str, str], sync: Any) -> Health:
    name = "Valkey" if "valkey_version" in info else "Redis"
    policy = sync[1].decode() if isinstance(sync, list) and len(sync) == 2 else UNKNOWN
    known = policy if policy in _PROMISES else UNKNOWN
    return Health(
        name,
        info.get("valkey_version") or info.get("redis_version") or UNKNOWN,
        known if info.get("aof_enabled") == "1" else "off",
        info.get("maxmemory_policy", UNKNOWN),
        info.get("cluster_enabled") == "1",
        info.get("role") == "slave",
    )


async def findings(nodes: Nodes) -> list[Finding]:
    """What an operator should know about the servers as they are now."""
    health = await examine(nodes)
    infos = [fields_of(info) for info in await nodes.everywhere("INFO")]
    before = time.time()
    times = await nodes.everywhere("TIME")
    here_ms = 500 * (before + time.time())
    ahead = [int(reply[0]) * 1000 + int(reply[1]) / 1000 - here_ms for reply in times if isinstance(reply, list)]
    return [
        Finding("version", f"{health.name} {health.version}"),
        _keeping(health),
        _evicting(health),
        _room(infos),
        *([await _cluster(nodes, infos)] if health.is_cluster else []),
        clock_finding(ahead),
    ]


def _keeping(health: Health) -> Finding:
    if health.is_replica:
        return Finding("durability", "a replica: it is read-only", "name the master in the URL", FAIL)
    if not health.is_durable:
        return Finding(
            "durability", health.durability, "set `appendonly yes`, and `appendfsync always` or everysec", WARN
        )
    if health.aof != "always":
        return Finding("durability", health.durability, "set `appendfsync always` where that is too much to lose", WARN)
    return Finding("durability", health.durability)


def _evicting(health: Health) -> Finding:
    if health.eviction == KEEPS_ALL:
        return Finding("eviction", "nothing is evicted (noeviction)")
    told = f"maxmemory-policy is {health.eviction}: the server may evict memories"
    return Finding(
        "eviction", told, f"set `maxmemory-policy {KEEPS_ALL}`", FAIL if health.eviction != UNKNOWN else WARN
    )


def _room(infos: Sequence[dict[str, str]]) -> Finding:
    """How full the fullest server is."""
    shares = [(int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))) for info in infos]
    limited = [used / most for used, most in shares if most]
    told = f"{sum(used for used, _ in shares) / (1 << 20):.0f} MiB in use"
    if not limited:
        return Finding("memory", f"{told}, without a limit")
    told += f"; the fullest server is {max(limited):.0%} full"
    if max(limited) < FULL:
        return Finding("memory", told)
    return Finding("memory", told, "raise maxmemory or add servers: a full one refuses writes", WARN)


async def _cluster(nodes: Nodes, infos: Sequence[dict[str, str]]) -> Finding:
    """Whether every slot is held, and every master has a replica to take its place."""
    states = [fields_of(reply).get("cluster_state", UNKNOWN) for reply in await nodes.everywhere("CLUSTER", "INFO")]
    alone = sum(int(info.get("connected_slaves", 0)) == 0 for info in infos)
    told = f"{len(infos)} masters, {alone} of them without a replica"
    if any(state not in ("ok", UNKNOWN) for state in states):
        return Finding("cluster", f"{told}; not all slots are covered", "look at `CLUSTER NODES`", FAIL)
    if UNKNOWN in states:
        return Finding("cluster", f"{told}; its state could not be read", "let this user run `cluster|info`", WARN)
    if alone:
        return Finding("cluster", told, "give each master a replica: without one, its slots are lost with it", WARN)
    return Finding("cluster", f"{len(infos)} masters, each with a replica")


async def memory_bytes(nodes: Nodes) -> int:
    """How much memory the servers use, for everything on them."""
    infos = [fields_of(info) for info in await nodes.everywhere("INFO", "memory")]
    return sum(int(info.get("used_memory", 0)) for info in infos)


async def rewrite_files(nodes: Nodes) -> None:
    """Have every node rewrite its files, so that they no longer hold what was forgotten."""
    infos = [fields_of(info) for info in await nodes.everywhere("INFO", "persistence")]
    saves = await nodes.everywhere("CONFIG", "GET", "save")
    if any(info.get("aof_enabled") == "1" for info in infos):
        await _rewrite(nodes, "BGREWRITEAOF", ("aof_rewrite_in_progress", "aof_rewrite_scheduled"))
    # Snapshots are written where the server makes them by itself, or where we cannot ask whether it does.
    if any(not isinstance(save, list) or (len(save) == 2 and save[1]) for save in saves):
        await _rewrite(nodes, "BGSAVE", ("rdb_bgsave_in_progress",))


async def _rewrite(nodes: Nodes, command: str, signs: tuple[str, ...]) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + COMPACT_LIMIT_S
    for _ in range(COMPACT_TRIES):
        # A rewrite already running may have begun before the forget: ours comes after it.
        await _until_quiet(nodes, signs, until)
        failures = [reply for reply in await nodes.everywhere(command) if isinstance(reply, Failure)]
        if not failures:
            await _until_quiet(nodes, signs, until)
            return
        if any(failure.code != "ERR" for failure in failures):
            break  # otherwise another process that forgets may just have been faster
    raise Unavailable(f"this Redis does not let us run {command}; its files keep what was forgotten until "
                      "it rewrites them", field="store")  # fmt: skip


async def _until_quiet(nodes: Nodes, signs: tuple[str, ...], until: float) -> None:
    while True:
        infos = [fields_of(info) for info in await nodes.everywhere("INFO", "persistence")]
        if not any(info.get(sign) == "1" for info in infos for sign in signs):
            return
        if asyncio.get_running_loop().time() > until:
            raise Unavailable("Redis is still rewriting its files; compact again later", field="store")
        await asyncio.sleep(COMPACT_PAUSE_S)
