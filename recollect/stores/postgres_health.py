"""How far a PostgreSQL server can be trusted: its version, extensions, durability, and the role we connect as.

Queried by `recollect doctor`, from the server as it is at that moment.
"""

from __future__ import annotations

import time

from recollect.stores.contract import FAIL, WARN, Finding, clock_finding
from recollect.stores.postgres_link import Connection
from recollect.stores.postgres_schema import MIGRATIONS, OLDEST, Found, look

CONNECTIONS_LEFT = 3
"""Connections that should be left for people when every process has its full pool."""

_ASKED = """
    select current_setting('server_version_num')::int, current_setting('max_connections')::int,
      (select count(*) from pg_stat_activity where backend_type = 'client backend')::int,
      (select rolsuper or rolbypassrls from pg_roles where rolname = current_user),
      (select default_version from pg_available_extensions where name = 'vector'),
      current_setting('autovacuum') = 'on', current_setting('synchronous_standby_names'),
      (select count(*) from pg_stat_replication where sync_state is null or sync_state in ('sync', 'quorum'))::int,
      (extract(epoch from clock_timestamp()) * 1000)::bigint
"""


async def examine(db: Connection, schema: str, pool_max: int) -> list[Finding]:
    """Everything an operator should know about a server before trusting it with memories."""
    found = await look(db, schema)
    before = time.time()
    rows = await (await db.execute(_ASKED)).fetchall()
    after = time.time()
    number, connections_max, connections, is_above, vector, autovacuum, standbys, attached, server_ms = rows[0]
    return [
        _version(found.server, number),
        _durability(found, standbys, attached),
        _migrations(found.version),
        _vectors(found.pgvector, vector),
        _role(is_above),
        _connections(pool_max, connections, connections_max),
        _vacuum(autovacuum),
        clock_finding([server_ms - 1000 * (before + after) / 2]),
    ]


def durability(found: Found) -> str:
    """What a returned call means for durability on this server, as configured."""
    if not found.fsync:
        return "NOT SAFE: fsync is off, so a crash of the machine can lose or damage everything"
    if found.synchronous_commit == "off":
        return "synchronous_commit is off: a crash of the server can lose the last second"
    return f"on disk (fsync, synchronous_commit={found.synchronous_commit}) when a call returns"


def _version(server: str, number: int) -> Finding:
    if number >= OLDEST:
        return Finding("version", f"PostgreSQL {server}")
    return Finding("version", f"PostgreSQL {server}", "15 or later is needed: upgrade the server", FAIL)


def _durability(found: Found, standbys: str, attached: int) -> Finding:
    """`attached`: the standbys that commits wait for; all of them, where the role may not see what each is."""
    waits = bool(standbys) and found.synchronous_commit not in ("off", "local")
    told = durability(found) + (f", and on a standby ({standbys})" if waits and attached else "")
    if waits and not attached:
        return Finding("durability", f"every write waits for a standby ({standbys}), and none is connected",
                       "start the standby, or take it out of synchronous_standby_names and reload", FAIL)  # fmt: skip
    if not found.fsync:
        return Finding("durability", told, "set fsync = on", FAIL)
    if found.synchronous_commit == "off":
        return Finding("durability", told, "set synchronous_commit = on, for the role at least", WARN)
    if found.read_only:
        return Finding("durability", "read-only", "write to the primary, or end its recovery", WARN)
    return Finding("durability", told)


def _migrations(version: int) -> Finding:
    newest = len(MIGRATIONS)
    if version == newest:
        return Finding("migrations", f"the schema has version {version}, the newest")
    advice = "open it once with a role that may change the schema" if version < newest else "upgrade Recollect"
    return Finding("migrations", f"the schema has version {version}, this Recollect {newest}", advice, WARN)


def _vectors(installed: str | None, offered: str | None) -> Finding:
    if installed:
        return Finding("extensions", f"pgvector {installed}")
    missing = "pgvector is not in use: no search by meaning over all users of an org"
    if offered:
        return Finding("extensions", missing, "run `create extension vector` as a superuser, then open it again", WARN)
    return Finding("extensions", missing, "install pgvector on the server, then `create extension vector`", WARN)


def _role(is_above: bool) -> Finding:
    if not is_above:
        return Finding("role", "row-level security applies to it")
    return Finding("role", "it bypasses row-level security, the second lock between users",
                   "use a role without superuser rights and without BYPASSRLS", WARN)  # fmt: skip


def _connections(pool_max: int, now: int, most: int) -> Finding:
    told = f"{now} of {most} in use; each process takes up to {pool_max}"
    if now + pool_max + CONNECTIONS_LEFT <= most:
        return Finding("connections", told)
    return Finding("connections", told, "raise max_connections, lower ?pool_max=, or use a connection pooler", WARN)


def _vacuum(is_on: bool) -> Finding:
    if is_on:
        return Finding("vacuum", "autovacuum is on")
    return Finding("vacuum", "autovacuum is off: what was forgotten stays in the files", "set autovacuum = on", WARN)
