"""A table of `langchain_postgres` as the conversation of a session, read and written in place beside its other users.

    history = TableHistory(memory.user("ann").session("monday"), "postgresql://...", "chat_history", session_id)
    await history.aadd_messages([HumanMessage("My car is a red Fiat.")])     # a row that every reader sees
    await history.follow()                                                   # rows that others wrote meanwhile

The table remains the source of truth for what was said and in which order. The session follows it: each row is one
of its messages, once, and is searched, summarised and learned from like any other. Forgetting deletes from both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, SessionHandle, also_kept, checked
from recollect.errors import Conflict, Unavailable, ValidationError
from recollect.records import STANDS_IN
from recollect.session import Session

with extra("langchain-postgres"):
    import psycopg
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
    from psycopg import sql
    from psycopg.types.json import Jsonb

    from recollect.adapters.langchain import to_stored

CONNECT_S = 10
LATE = timedelta(minutes=10)
"""How much later than its number suggests a row may become visible: another writer's transaction can take that long."""
LOOKED_AT = 200
"""How many of the newest messages are searched for the last row that was added."""

_READ = """
    select id, message, created_at from {table} where session_id = %(session)s
    and created_at > coalesce((select created_at from {table} where id = %(after)s), '-infinity') - %(late)s order by id
"""
_ADD = """
    insert into {table} (session_id, message) select %(session)s, %(message)s
    where %(id)s::text is null or not exists (
        select from {table} where session_id = %(session)s and message -> 'data' ->> 'id' = %(id)s)
"""

_DELETE = """
    delete from {table} where session_id = %(session)s and (%(rows)s::bigint[] is null or id = any(%(rows)s::bigint[]))
"""


class TableHistory(BaseChatMessageHistory):
    """The messages that a table holds of one session, for LangChain and for a session of ours.

    The table says nothing about users: the caller says whose session it is.
    """

    def __init__(self, session: SessionHandle, url: str, table: str, session_id: str | UUID) -> None:
        super().__init__()
        if not isinstance(table, str) or not table:
            raise ValidationError("must be the name of a table", field="table")
        try:
            self._id = UUID(str(session_id))
        except ValueError:
            raise ValidationError("must be a UUID, as the table keeps them", field="session_id") from None
        self._session = checked(session, "session")
        self._url = url
        self._name = table
        self._table = sql.Identifier(*table.split("."))
        self._bridge = Bridge()
        also_kept(session, self)

    @property
    def name(self) -> str:
        """The table and the chat in it, as receipts name them."""
        return f"{self._name}/{self._id}"

    @property
    def session(self) -> str:
        """The session that follows the table."""
        return self._session.id

    async def forget(self, ids: Collection[str] | None) -> int:
        """Delete the rows of these messages, or all of the chat. Called by the memory when it forgets them."""
        given: dict[str, Any] = {"session": self._id, "rows": None}
        if ids is not None:
            given["rows"] = [self._row(id) for id in ids if self._is_row(id)]
        async with self._transaction() as connection:
            return (await connection.execute(self._composed(_DELETE), given)).rowcount

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """What the table holds, in order."""
        return self._bridge.run(self._session, self._read)

    async def aget_messages(self) -> list[BaseMessage]:
        return await self._bridge.wait(self._session, self._read)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append rows, all or none, and add them to the session. A message whose id is already there is not added."""
        self._bridge.run(self._session, lambda session: self._add(session, messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await self._bridge.wait(self._session, lambda session: self._add(session, messages))

    def clear(self) -> None:
        """Forget the session and what was learned from it alone, together with its rows."""
        self._bridge.run(self._session, self._clear)

    async def aclear(self) -> None:
        await self._bridge.wait(self._session, self._clear)

    async def follow(self) -> int:
        """Add the rows that the session does not have yet, in their order. Returns how many were added."""
        return await self._bridge.wait(self._session, self._follow)

    # ── the table ────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """One transaction on its own connection; what the server refuses is raised as one of our errors."""
        try:
            async with await psycopg.AsyncConnection.connect(self._url, connect_timeout=CONNECT_S) as connection:
                yield connection
        except psycopg.errors.UndefinedTable:
            raise Unavailable("there is no such table; langchain_postgres can make it", field="table") from None
        except psycopg.Error as error:
            state = error.sqlstate or "no connection"
            raise Unavailable(f"the table cannot be read or written ({state})", field="table") from None

    def _composed(self, query: str) -> sql.Composed:
        return sql.SQL(query).format(table=self._table)

    async def _rows(self, after: int) -> list[tuple[int, BaseMessage, Any]]:
        given = {"session": self._id, "after": after, "late": LATE}
        async with self._transaction() as connection:
            rows = await (await connection.execute(self._composed(_READ), given)).fetchall()
        return [(row, messages_from_dict([message])[0], at) for row, message, at in rows]

    async def _read(self, session: Session) -> list[BaseMessage]:
        return [message for _, message, _ in await self._rows(after=0)]

    async def _add(self, session: Session, messages: Sequence[BaseMessage]) -> None:
        # A caller that stops waiting must not stop it between the table and the session.
        await asyncio.shield(self._written(session, list(messages)))

    async def _written(self, session: Session, messages: Sequence[BaseMessage]) -> None:
        async with self._transaction() as connection:
            await connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [self.name])
            for message in messages:
                given = {"session": self._id, "message": Jsonb(message_to_dict(message)), "id": message.id}
                await connection.execute(self._composed(_ADD), given)
        await self._follow(session)

    async def _clear(self, session: Session) -> None:
        await session.delete()

    # ── the session ──────────────────────────────────────────────────────────────────────────────

    async def _follow(self, session: Session) -> int:
        newest, _ = await session.messages(limit=LOOKED_AT, newest_first=True)
        known = {message.id for message in newest}
        taken = [self._row(id) for id in known if self._is_row(id)]
        came = 0
        for row, message, at in await self._rows(after=max(taken, default=0)):
            id = f"{self._name}:{row}"
            if id not in known:
                given = to_stored(message)
                metadata = {**given.get("metadata", {}), STANDS_IN: self.name}
                came += await self._take(session, id, given | {"created_at": at, "metadata": metadata})
        return came

    async def _take(self, session: Session, id: str, given: dict[str, Any]) -> bool:
        """Add a row as a message, once: its key is remembered, so that a forgotten row does not come back."""
        try:
            await session.add_message(**given, id=id, idempotency_key=id)
        except Conflict:
            return False
        return True

    def _is_row(self, id: str) -> bool:
        return id.startswith(f"{self._name}:") and id.removeprefix(f"{self._name}:").isdecimal()

    def _row(self, id: str) -> int:
        return int(id.removeprefix(f"{self._name}:"))
