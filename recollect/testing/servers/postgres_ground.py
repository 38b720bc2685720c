"""A schema in PostgreSQL, and another one with what it held: for drills that put it back, hang up and look around."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from recollect.stores.postgres_schema import TABLES
from recollect.testing.proxy import Proxy, in_front_of

CONNECTIONS_MAX = 2
"""Connections of a store: so few that one which is not given back is missed at once."""


class Ground:
    """The schema of a store."""

    def __init__(self, url: str) -> None:
        place, _, self._schema = url.rpartition("schema=")
        self._name = f"drill_{self._schema}"
        url = f"{place}pool_max={CONNECTIONS_MAX}&application_name={self._name}&schema={self._schema}"
        self._proxy: Proxy | None
        self._proxy, self.url = in_front_of(url) or (None, url)
        self._admin = psycopg.connect(place.rstrip("?&"), autocommit=True)

    async def start(self) -> None:
        if self._proxy is not None:
            await self._proxy.mend()
        self._do(f"set search_path to {self._schema}, public")
        self._do("select set_config('recollect.reach', 'all', false)")

    def keep(self) -> None:
        self._do(f"create schema {self._schema}_other")
        for table in TABLES:
            self._do(f"create table {self._schema}_other.{table} as table {table}")

    def put_back(self) -> None:
        with self._admin.transaction():
            for table in TABLES:
                self._do(f"delete from {table}")
                self._do(f"insert into {table} select * from {self._schema}_other.{table}")

    def hang_up(self) -> None:
        self._do(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {self._ours}")

    def lose_answers(self) -> None:
        (self._proxy.lose_answers if self._proxy is not None else self.hang_up)()

    def held(self, store: Any) -> Iterator[str]:
        link, commits = store._link, store._commits
        pool = link._pool.get_stats()
        if pool["pool_available"] < pool["pool_size"] or pool.get("requests_waiting"):
            yield f"connections of the pool in use: {pool}"
        if link._tasks or commits._lines or commits._held or commits._writers:
            yield f"commits under way: {link._tasks}, {commits._lines}, {commits._held}, {commits._writers}"
        ((locks, open_ones),) = self._do(
            f"""with ours as (select pid, state from pg_stat_activity where {self._ours})
               select (select count(*) from pg_locks join ours using (pid) where locktype = 'advisory'),
                 (select count(*) from ours where state like 'idle in transaction%')"""
        )
        if locks or open_ones:
            yield f"{locks} advisory locks and {open_ones} open transactions"

    def connections(self) -> int:
        ((count,),) = self._do(f"select count(*) from pg_stat_activity where {self._ours}")
        return int(count)

    async def stop(self) -> None:
        if self._proxy is not None:
            await self._proxy.cut()
        self._admin.close()

    @property
    def _ours(self) -> str:
        return f"application_name = '{self._name}'"

    def _do(self, sql: str) -> list[Any]:
        cursor = self._admin.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []
