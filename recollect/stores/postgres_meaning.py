"""Search by meaning with pgvector: exact within one user, along an index across all users of an org.

Filtering a graph of neighbours by tenant finds too little, so all of one user's vectors are compared.
Across an org the graph (HNSW) pays off from tens of thousands of records; it is then built alongside the
writers, one hash partition after another, and the answers are exact until it is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from psycopg.sql import SQL, Identifier, Literal

from recollect.errors import RecollectError
from recollect.filters import Reach
from recollect.records import Partition, Vector
from recollect.stores.contract import Candidate
from recollect.stores.postgres_link import Connection, Link
from recollect.stores.postgres_schema import HALFVEC_DIMENSIONS_MAX, LEAVES
from recollect.stores.postgres_values import Half

INDEX_FROM = 20_000
"""Records in the whole store from which a graph is worth its memory and its share of every write."""
INDEX_DIMENSIONS_MAX = 4_000
"""The most dimensions of a `halfvec` that pgvector can index."""
LOOKED_AT = 200
"""Candidates that a walk through the graph keeps (`ef_search`)."""
BUILD_MEMORY = "256MB"
_INFINITE = 0x7C00
_SEEN = """r.model = %(model)s and vector_dims(r.embedding) = %(size)s and not r.dropped
  and (r.dead_at is null or r.dead_at > %(now)s) and (%(layers)s::text[] is null or r.layer = any(%(layers)s))"""
_COMPARED = (
    "select r.org, r.usr, r.id, -(r.embedding <#> %(vector)s) from heads h join records r using (org, usr, epoch)"
)
_OF_USER = f"""{_COMPARED}
where h.org = %(org)s and h.usr = %(user)s and r.org = %(org)s and r.usr = %(user)s and {_SEEN}
order by r.embedding <#> %(vector)s limit %(limit)s"""
_OF_ORG = f"""{_COMPARED}
where h.org = %(org)s and r.org = %(org)s and {_SEEN}
order by r.embedding <#> %(vector)s limit %(limit)s"""


def _along_the_graph(size: int) -> str:
    """A query written as the index is, with the epoch looked up row by row, since a join would undo the order."""
    distance = f"r.embedding::halfvec({size}) <#> %(vector)s"
    return f"""
select r.org, r.usr, r.id, -({distance}) from records r
where r.org = %(org)s and {_SEEN}
  and r.epoch = (select h.epoch from heads h where h.org = r.org and h.usr = r.usr)
order by {distance} limit %(limit)s"""


def as_half(data: bytes) -> Half | None:
    """A vector as the server receives it; None for what `halfvec` cannot hold, which stays plain bytes."""
    numbers = np.frombuffer(data, "<u2") if len(data) % 2 == 0 else np.zeros(0, "<u2")
    if not 0 < len(numbers) <= HALFVEC_DIMENSIONS_MAX or ((numbers & _INFINITE) == _INFINITE).any():
        return None
    return Half(len(numbers).to_bytes(2, "big") + b"\x00\x00" + numbers.byteswap().tobytes())


def from_half(sent: bytes) -> bytes:
    """The original vector, bit for bit, from what the server sends."""
    return np.frombuffer(sent, "<u2", offset=4).byteswap().tobytes()


class Meaning:
    """The search, and building the graph it needs."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._built: set[tuple[str, int]] = set()
        self._looked_after: set[tuple[str, int]] = set()

    async def search(self, reach: Reach, vector: Vector, limit: int, now: int) -> list[Candidate]:
        """The living records nearest to a vector, best first."""
        asked = as_half(vector.data)
        if asked is None:
            return []
        size = len(vector.data) // 2
        values = {
            "vector": asked,
            "model": vector.model,
            "size": size,
            "org": reach.org,
            "user": reach.user,
            "layers": list(reach.layers) or None,
            "now": now,
            "limit": limit,
        }
        kind = (vector.model, size)
        sql = _OF_USER if reach.user is not None else _along_the_graph(size) if kind in self._built else _OF_ORG
        rows = await self._link.run(lambda db: _find(db, sql, values))
        if sql is _OF_ORG and size <= INDEX_DIMENSIONS_MAX and kind not in self._looked_after:
            self._looked_after.add(kind)
            self._link.spawn(self._look_after(*kind))
        return [Candidate(Partition(org, user), id, score) for org, user, id, score in rows]

    async def build(self, model: str, size: int) -> None:
        """Build the graph of a model, or see that it is there; from then on search follows it."""
        if await self._link.run_handed_over(lambda db: build_index(db, model, size), again=False):
            self._built.add((model, size))

    async def _look_after(self, model: str, size: int) -> None:
        """Build the graph of a model when there is enough to search. A failure costs time, not answers."""
        try:
            if await self._link.run_handed_over(_is_large, again=True):
                await self.build(model, size)
        except RecollectError:
            pass
        finally:
            self._looked_after.discard((model, size))


async def _is_large(db: Connection) -> bool:
    """Whether the store holds many records, as far as the server's statistics tell."""
    sql = "select coalesce(sum(reltuples), 0) >= %s from pg_class where oid = any(%s::regclass[])"
    return await (await db.execute(sql, (INDEX_FROM, list(LEAVES)))).fetchone() == (True,)


async def build_index(db: Connection, model: str, size: int) -> bool:
    """Build a model's graph over every hash partition, alongside the writers. False: another process is building it."""
    name = hashlib.blake2b(f"{size} {model}".encode(), digest_size=6).hexdigest()
    lock = "(hashtextextended('recollect meaning ' || current_schema() || %s, 0))"
    async with unhurried(db):
        await db.execute("select set_config('maintenance_work_mem', %s, false)", (BUILD_MEMORY,))
        cursor = await db.execute(f"select pg_try_advisory_lock{lock}".encode(), (name,))
        if await cursor.fetchone() != (True,):
            return False
        try:
            for leaf in LEAVES:
                await _build_leaf(db, leaf, f"{leaf}_meaning_{name}", model, size)
        finally:
            await db.execute(f"select pg_advisory_unlock{lock}".encode(), (name,))
    return True


async def _build_leaf(db: Connection, leaf: str, index: str, model: str, size: int) -> None:
    cursor = await db.execute("select indisvalid from pg_index where indexrelid = to_regclass(%s)", (index,))
    valid = await cursor.fetchone()
    if valid == (True,):
        return
    if valid is not None:
        await db.execute(SQL("drop index concurrently {}").format(Identifier(index)))
    await db.execute(
        SQL(
            "create index concurrently {} on {} using hnsw ((embedding::halfvec({})) halfvec_ip_ops)"
            " where model = {} and vector_dims(embedding) = {} and not dropped"
        ).format(Identifier(index), Identifier(leaf), Literal(size), Literal(model), Literal(size))
    )


async def _find(db: Connection, sql: str, values: dict[str, Any]) -> list[tuple[str, str, str, float]]:
    async with db.transaction():
        # The graph is followed until enough rows have passed the filter.
        await db.execute(
            """select set_config('recollect.org', %(org)s, true), set_config('recollect.reach', 'org', true),
                 set_config('hnsw.ef_search', %(looked_at)s, true),
                 set_config('hnsw.iterative_scan', 'strict_order', true)""",
            {"org": values["org"], "looked_at": str(LOOKED_AT)},
        )
        # Planned for these exact values: only then can a partial index for one model be used.
        return await (await db.execute(sql.encode(), values, prepare=False)).fetchall()


@asynccontextmanager
async def unhurried(db: Connection) -> AsyncIterator[None]:
    """Lift a connection's time limit on statements, for upkeep that takes as long as it takes."""
    ((usual,),) = await (await db.execute("select current_setting('statement_timeout')")).fetchall()
    await db.execute("set statement_timeout = 0")
    silence_s, db.silence_s = db.silence_s, None
    try:
        yield
    finally:
        db.silence_s = silence_s
        if not db.closed:
            await db.execute("select set_config('statement_timeout', %s, false)", (usual,))
            await db.execute("reset maintenance_work_mem")
