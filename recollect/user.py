"""The handle of one user: memories, facts, search, contexts, forgetting. It carries the scope.

Each verb is a few lines: validate the arguments, then pass them to the part of the flow that does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recollect import long_term, validate
from recollect.arguments import (
    call,
    key,
    listed,
    place,
    place_of,
    reprocess_options,
    searched_layers,
)
from recollect.context_policy import ContextPolicy
from recollect.conversation import SessionInfo
from recollect.customizations import Customization, Customizations
from recollect.episodes import Episodes
from recollect.errors import NotFound, TooLarge, ValidationError
from recollect.graph import Graph
from recollect.handles import Handle
from recollect.learnings import Learning, Learnings
from recollect.long_term import LongTerm
from recollect.profile import Fact, Facts, Profile, read_profile
from recollect.records import MINUTE_MS, Hit, Record, Scope
from recollect.session import Session, session_info
from recollect.working import Working

if TYPE_CHECKING:
    from recollect.context import Context
    from recollect.flow import Flow
    from recollect.privacy import Privacy, Receipt
    from recollect.reprocessing import Reprocessed
    from recollect.trust import SetAside, Trust, Undone
    from recollect.upkeep import Maintained

EDITS_MAX = 45
"""Edits per call: each also writes the previous state, and all go into one commit."""


class User(Handle):
    """What is remembered about one user."""

    def __init__(self, flow: Flow, scope: Scope) -> None:
        self._flow = flow
        self._scope = scope
        self._long_term = LongTerm(flow.ledger, scope)

    def __repr__(self) -> str:
        return f"<User {self.id!r} of org {self._scope.org!r}>"

    @property
    def id(self) -> str:
        return self._scope.user

    @property
    def _privacy(self) -> Privacy:
        return self._flow.privacy(self._scope.partition)

    @property
    def _trust(self) -> Trust:
        return self._flow.trust(self._scope)

    def session(self, id: str, *, agent: str = "") -> Session:
        """The handle of a session, which is created on first use."""
        own = self._scope
        scope = Scope(own.org, own.user, validate.agent(agent), validate.identifier(id, "session"))
        return Session(self._flow, scope, self)

    async def reprocess(
        self, *, session: str | None = None, by: str | None = None, apply: bool = False, again: bool = False
    ) -> Reprocessed:
        """Reprocess the user's conversations, or one of them; report what would change, and change it with `apply`."""
        given = reprocess_options(by, apply, again)
        chosen = validate.optional_identifier(session, "session")
        return await self._flow.reprocessing.run(self._scope.partition, session=chosen, **given)

    async def sessions(self, *, limit: int = 100) -> list[SessionInfo]:
        """The user's sessions, the most recently active first."""
        return (await self.sessions_page(limit=limit))[0]

    async def sessions_page(
        self, *, limit: int = 100, after: str | None = None
    ) -> tuple[list[SessionInfo], str | None]:
        """A page of the user's sessions, the most recently active first, and the cursor of the next (None at the end).

        A session in which something is said meanwhile moves to the front, where the first page has it.
        """
        validate.limit(limit)
        seen = None if after is None else _seen(after)
        now = self._flow.ledger.clock()
        index = await self._flow.indexes.current(self._scope.partition)
        left = [each for each in index.activity(now) if seen is None or (-each.last_at, each.session) > seen]
        page = left[:limit]
        found = [session_info(index, self._scope, each, now) for each in page]
        return found, place(page[-1].last_at, page[-1].session) if len(left) > limit else None

    # ── what is known about the user ─────────────────────────────────────────────────────────────

    async def profile(self, *, as_of: Any = None, known_at: Any = None) -> Profile:
        """What is known about the user now, or what was true (`as_of`) or believed (`known_at`) at some time."""
        return await read_profile(self._flow.ledger, self._scope, as_of=as_of, known_at=known_at)

    @property
    def facts(self) -> Facts:
        """What is known about the user, with its history."""
        return Facts(self._flow.ledger, self._scope)

    @property
    def preferences(self) -> Facts:
        """Named settings of the user, with their history."""
        return Facts(self._flow.ledger, self._scope, "preference")

    @property
    def learnings(self) -> Learnings:
        """Preferences, patterns and corrections learned from working with the user."""
        return Learnings(self._flow.ledger, self._scope)

    @property
    def customizations(self) -> Customizations:
        """The user's standing instructions for all agents; `.of_agent(name)` gives those for one."""
        return Customizations(self._flow.ledger, self._scope)

    @property
    def episodes(self) -> Episodes:
        """Remembered stretches of conversation."""
        return Episodes(self._flow.ledger, self._scope, idle_ms=self._flow.settings.episode_idle_minutes * MINUTE_MS)

    @property
    def graph(self) -> Graph:
        """People, places and things that the user mentions, and how they are related."""
        return Graph(self._flow.ledger, self._scope)

    async def upsert_facts(self, items: Sequence[Mapping[str, Any]]) -> list[Fact]:
        """State up to 30 facts in one commit: objects with `key`, `value` and anything else that `add_fact` takes."""
        return await self.facts.upsert(items)

    async def add_fact(
        self,
        key: str,
        value: str,
        *,
        confidence: float = 1.0,
        source_message_id: str | None = None,
        valid_from: Any = None,
        valid_to: Any = None,
    ) -> Fact:
        """State one fact. Repeating a value makes it surer; another value ends the previous one, which is kept.

        A key that may have several values at a time, such as `hobby`, holds the new value beside the others.
        """
        return await self.facts.add(
            key, value, confidence=confidence, source_message_id=source_message_id, valid_from=valid_from,
            valid_to=valid_to,
        )  # fmt: skip

    async def update_preference(self, key: str, value: str) -> Fact:
        """Set a named setting of the user, such as `tone` or `theme`."""
        return await self.preferences.add(key, value)

    async def add_learning(
        self,
        content: str,
        *,
        type: str = "pattern",
        confidence: float | None = None,
        source_message_id: str | None = None,
        created_at: Any = None,
    ) -> Learning:
        """Store what was learned: a `preference`, a `pattern` or a `correction`; `created_at` can backdate it."""
        return await self.learnings.add(
            content, type=type, confidence=confidence, source_message_id=source_message_id, created_at=created_at
        )

    async def customize(self, text: str, *, agent: str = "", id: str | None = None) -> Customization:
        """Add a standing instruction, for all agents or for one."""
        return await self.customizations.of_agent(agent).add(text, id=id)

    # ── long-term memories ───────────────────────────────────────────────────────────────────────

    async def add_memory(
        self,
        content: str,
        *,
        layer: str = "long_term",
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        created_at: Any = None,
        expires_at: Any = None,
        trust: str = "trusted",
        idempotency_key: str | None = None,
        only_new: bool = False,
    ) -> Record:
        """Remember a text, permanently or until `expires_at`. Adding the same text again strengthens the same memory.

        With `only_new`, it raises `Conflict` instead if the text, or the given id, is already there.
        """
        draft = long_term.draft(
            content, layer=layer, id=id, metadata=metadata, importance=importance, confidence=confidence,
            created_at=created_at, expires_at=expires_at, trust=trust,
        )  # fmt: skip
        added = self._long_term.add([draft], key(idempotency_key), only_new=validate.switch(only_new, "only_new"))
        return (await added)[0]

    async def add_memories(
        self,
        items: Sequence[str | Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        only_new: bool = False,
    ) -> list[Record]:
        """Remember up to 90 texts in one commit, all or none. An item is a text or the arguments of `add_memory`.

        With `only_new`, it raises `Conflict` if any of them is already there.
        """

        def draft(item: Any) -> Record:
            return call(long_term.draft, {"content": item} if isinstance(item, str) else item)

        drafts = validate.each(items, draft)
        chosen = validate.switch(only_new, "only_new")
        return await self._long_term.add(drafts, key(idempotency_key), only_new=chosen)

    async def get_memory(self, id: str) -> Record:
        """One memory by its id."""
        return await self._long_term.get(id)

    async def get_memories(self, ids: Sequence[str]) -> list[Record]:
        """The memories with these ids, in the order asked; missing ones are skipped."""
        return await self._long_term.get_many(validate.batch(ids, "ids"))

    async def update_memory(
        self,
        id: str,
        *,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        expires_at: Any = None,
        version: int | None = None,
    ) -> Record:
        """Change a memory; its previous state stays in its history. A stale `version` raises `Conflict`.

        `expires_at` is a time, or "never"; it is not part of the history.
        """
        edit = long_term.edit(
            id, content=content, metadata=metadata, importance=importance, expires_at=expires_at, version=version
        )
        return (await self._long_term.update([edit]))[0]

    async def update_memories(self, items: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Change up to 45 memories in one commit, all or none. An item is the arguments of `update_memory`."""
        edits = validate.each(items, lambda item: call(long_term.edit, item))
        if len(edits) > EDITS_MAX:
            raise TooLarge(f"at most {EDITS_MAX} edits at once: each also writes the previous version", field="items")
        return await self._long_term.update(edits)

    async def history(self, id: str) -> list[Record]:
        """The earlier states of a memory, oldest first, then the current one."""
        return await self._long_term.history(id)

    async def list_memories(
        self,
        *,
        layer: str = "long_term",
        where: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: str | None = None,
        at: Any = None,
        newest_first: bool = False,
    ) -> tuple[list[Record], str | None]:
        """A page of memories in order of birth, or newest first, and the cursor of the next page (None at the end).

        Relative times in the filter, such as "-7d", count back from `at`, so that they mean the same on every page.
        """
        return await listed(self._flow, self._scope, layer, where, limit, after, at, newest_first)

    async def search_memory(
        self,
        query: str,
        *,
        layer: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int = 5,
        at: Any = None,
        quality: str | None = None,
    ) -> list[Hit]:
        """The hits that best answer a question, in all layers or in some, each with its reasons."""
        text = validate.query(query)
        layers = searched_layers(layer)
        reranker = await self._flow.reranker(quality)
        moment = validate.moment(at, "at")
        test = validate.where(where, at=self._flow.ledger.clock() if moment is None else moment)
        question = await self._flow.question(self._scope, text, moment)
        hits = await self._flow.recall.search(
            self._scope, question, layers=layers, test=test, limit=validate.limit(limit), reranker=reranker
        )
        return [hit.apart() for hit in hits]  # copies, because other callers share the records of the index

    async def get_context(
        self,
        query: str,
        *,
        max_tokens: int = 4_000,
        layers: Sequence[str] | None = None,
        sections: Sequence[str] | None = None,
        policy: ContextPolicy | Mapping[str, Any] | None = None,
        at: Any = None,
        quality: str | None = None,
        model: str | None = None,
    ) -> Context:
        """The best context for a question, outside any session."""
        chosen = ContextPolicy.of(policy, layers=layers, sections=sections, quality=quality)
        return await self._flow.context(self._scope, None, query, max_tokens, chosen, at, model)

    @property
    def working(self) -> Working:
        """Working memory of the user, across sessions."""
        return Working(self._flow.ledger, self._scope)

    # ── trust ────────────────────────────────────────────────────────────────────────────────────

    async def undo(
        self,
        *,
        session: str | None = None,
        message_id: str | None = None,
        extractor: str | None = None,
        since: Any = None,
        dry_run: bool = False,
    ) -> Undone:
        """Undo everything that was learned from a session, from a message or by an extractor; `redo` brings it back."""
        only_tell = validate.switch(dry_run, "dry_run")
        return await self._trust.undo(
            session=session, message_id=message_id, extractor=extractor, since=since, dry_run=only_tell
        )

    async def redo(self, undone_id: str) -> Undone:
        """Reverse an undo."""
        return await self._trust.redo(undone_id)

    async def quarantine(
        self, *, session: str | None = None, ids: Sequence[str] | None = None, reason: str = ""
    ) -> SetAside:
        """Quarantine a session or some memories: nothing uses them any more, and what they taught is undone."""
        return await self._trust.quarantine(session=session, ids=ids, reason=reason)

    async def release(self, *, session: str | None = None, ids: Sequence[str] | None = None) -> SetAside:
        """Release a session or some memories from quarantine: they are trusted again."""
        return await self._trust.release(session=session, ids=ids)

    # ── privacy and upkeep ───────────────────────────────────────────────────────────────────────

    async def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        layer: str | Sequence[str] | None = None,
    ) -> Receipt:
        """Forget memories by id or by filter, with everything that rests on them. Returns a receipt."""
        if (ids is None) == (where is None):
            raise ValidationError("give ids or a filter", field="ids")
        if ids is not None:
            listed = [ids] if isinstance(ids, str) else validate.batch(ids, "ids")
            return await self._privacy.forget_ids([validate.identifier(id, "ids") for id in listed])
        test = validate.where(where, at=self._flow.ledger.clock())
        if test is None:
            raise ValidationError("an empty filter would forget everything; use erase() for that", field="where")
        return await self._privacy.forget_where(test, validate.layers(layer, "layer"))

    async def erase(self) -> Receipt:
        """Forget everything about the user, in every layer and file. Returns a receipt."""
        return await self._privacy.erase()

    async def export(self) -> list[dict[str, Any]]:
        """Everything about the user as JSON objects; the first describes the export."""
        return [line async for line in self._privacy.export()]

    async def export_page(
        self, *, limit: int = 500, after: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of the export, and the cursor of the next (None at the end), for exports too large for memory."""
        return await self._privacy.export_page(validate.limit(limit), validate.cursor(after))

    async def import_records(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Store exported records under this user. Returns how many were new."""
        if not isinstance(records, Sequence) or isinstance(records, str | bytes):
            raise ValidationError("must be a list of exported records", field="records")
        return await self._privacy.import_records(records)

    async def restore(self, id: str) -> Record:
        """Bring back a memory that pruning retired or merging ended."""
        return await self._flow.upkeep.restore(self._scope.partition, validate.identifier(id, "id"))

    async def maintain(self, *, dry_run: bool = False) -> Maintained:
        """Consolidate, prune and purge this user's memories; with `dry_run`, only report."""
        only_tell = validate.switch(dry_run, "dry_run")
        async for done in self._flow.upkeep.maintain(self._scope.partition, dry_run=only_tell):
            return done
        raise NotFound(field="user")

    async def failures(self) -> list[Record]:
        """Work that was given up, each with its reason."""
        return await self._flow.worker.failures(self._scope.partition)

    async def retry(self, failure_id: str) -> None:
        """Give failed work another round of attempts."""
        await self._flow.worker.retry(self._scope.partition, validate.identifier(failure_id, "failure_id"))


def _seen(after: str) -> tuple[int, str]:
    """What the cursor of a page of sessions says: how recent, and which, the last session was."""
    last_at, session = place_of(after)
    if not isinstance(last_at, int) or not isinstance(session, str):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return -last_at, session
