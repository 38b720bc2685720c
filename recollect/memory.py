"""The front door: `Memory`, and the user, org and session handles that carry the scope.

Each verb is a few lines: validate the arguments, then pass them to the part of the flow that does the work.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from recollect import conversation, long_term, validate
from recollect.conversation import Conversation, Message, SessionInfo
from recollect.customizations import Customization, Customizations
from recollect.entities import EntityCache
from recollect.episodes import Episode, Episodes
from recollect.errors import NotFound, TooLarge, Unavailable, ValidationError
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.layers import SEARCHED_LAYERS
from recollect.learnings import Learning, Learnings
from recollect.ledger import Ledger
from recollect.long_term import LongTerm
from recollect.models import ChatModel, Given, as_model, open_model
from recollect.policies.masking import parse_kinds
from recollect.policies.quarantine import is_aside
from recollect.profile import Fact, Facts, Profile, read_profile
from recollect.records import (
    MINUTE_MS,
    Clock,
    Hit,
    Partition,
    Record,
    Scope,
    as_datetime,
    system_clock,
)
from recollect.settings import QUALITIES, RERANKERS, Settings
from recollect.stores import check_index, open_index
from recollect.stores.contract import (
    Finding,
    Store,
    Survey,
    VectorIndex,
    examined,
    is_owned,
    is_veil,
    named_partitions,
    veil_of,
)
from recollect.stores.in_memory import InMemoryStore
from recollect.stores.routed import FALLBACKS, check_routes, open_stores
from recollect.working import Working

if TYPE_CHECKING:
    from recollect.context import Context
    from recollect.flow import Flow
    from recollect.index import Activity, PartitionIndex
    from recollect.indexing import Reindexed
    from recollect.privacy import Privacy, Receipt
    from recollect.providers import Embedder
    from recollect.reembedding import Reembedded
    from recollect.reprocessing import Reprocessed
    from recollect.reranking import Reranker
    from recollect.setting_changes import SettingChanges
    from recollect.trust import SetAside, Trust, Undone
    from recollect.upkeep import Maintained

T = TypeVar("T")

log = logging.getLogger("recollect.memory")

SIDE_BY_SIDE = 16
"""Users queried concurrently: a server answers for all of them in the time of one, without being flooded."""
READERS = ("rules", "model")
"""What can reprocess stored conversations."""
EDITS_MAX = 45
"""Edits per call: each also writes the previous state, and all go into one commit."""


def _part(name: str) -> ModuleType:
    """A module behind the front door, loaded when the first memory is opened because it imports numpy and more."""
    return import_module(f"recollect.{name}")


class Memory:
    """The memory of conversational agents.

    >>> async with Memory.open("memory://") as memory:
    ...     chat = memory.user("ann").session("monday")
    ...     await chat.add_interaction("I like dark mode.", "Noted!")
    ...     context = await chat.get_context("Which theme should I use?")
    """

    def __init__(
        self,
        url: str | Path | Store = "",
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        clock: Clock = system_clock,
        reranker: Reranker | None = None,
        model: ChatModel | None = None,
    ) -> None:
        """Called by `Memory.open`; use that to open a memory."""
        if settings is None:
            raise ValidationError("open a memory with `async with Memory.open(url) as memory`", field="memory")
        self._url = url
        self._settings = settings
        self._embedder = embedder
        self._reranker = reranker
        self._model = model
        self._clock = clock
        self._flow: Flow | None = None
        self._starting = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    def open(
        cls,
        url: str | Path | Store | None = None,
        *,
        embedder: Embedder | str | None = None,
        reranker: Reranker | str | None = None,
        llm: Given | str | None = None,
        clock: Clock = system_clock,
        settings: Settings | None = None,
        **changes: Unpack[SettingChanges],
    ) -> Self:
        """Return a memory to enter with `async with`, or to start with `memory = await Memory.open()`.

        Without a URL, the one from `RECOLLECT_URL` or `recollect.toml` is used, else the file `recollect.db` in the
        current folder. A store of your own can be passed instead of a URL. With
        `layers={"working": "redis://...", "conversation": "redis://..."}` those layers are kept elsewhere. An
        embedder, a reranker and a chat model (`llm`) are each an object or the name of one; the chat model may also
        be an async function. Any setting can be passed by its name.
        """
        named: dict[str, Any] = {**changes}
        if isinstance(embedder, str):
            named["embedder"], embedder = embedder, None
        if isinstance(reranker, str):
            named["reranker"], reranker = reranker, None
        if isinstance(llm, str):
            named["llm"], llm = llm, None
        if settings is not None and not isinstance(settings, Settings):
            raise ValidationError("must be a Settings object; pass a single setting by its name", field="settings")
        chosen = (settings or Settings.read(os.environ)).with_(named)
        validate.choice(chosen.window_strategy, conversation.STRATEGIES, "window_strategy")
        validate.choice(chosen.quality, QUALITIES, "quality")
        validate.choice(chosen.fallback, FALLBACKS, "fallback")
        check_routes(chosen.layers)
        check_index(chosen.index)
        _check_masking(chosen.masking)
        validate.choice(chosen.reranker, RERANKERS, "reranker")
        if embedder is None:
            opened: Embedder | None = _part("embedders").open_or_warn(chosen.embedder, chosen)
            embedder = opened
        else:
            validate.part(embedder, ("name", "dimensions", "embed"), "embedder")
        if reranker is not None:
            validate.part(reranker, ("name", "score"), "reranker")
        model = open_model(chosen.llm, chosen) if llm is None else as_model(llm)
        return cls(chosen.url if url is None else url, chosen, embedder, validate.clock(clock), reranker, model)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.start().__await__()

    if not TYPE_CHECKING:  # a type checker rejects plain `with` on its own, before anything runs

        def __enter__(self):
            raise ValidationError(
                "use `async with`; in code without `await`, `from recollect.sync import Memory`", field="memory"
            )

        def __exit__(self, *error): ...

    async def start(self) -> Self:
        """Open the store and start the worker, unless the worker runs elsewhere."""
        async with self._starting:
            if self._flow is None:
                self._closing = None
                earlier = _part("embedders").open_earlier(self._embedder, self._settings)
                index = _index_beside(self._settings, self._embedder)
                self._flow = await self._wired(await self._opened(), earlier, index)
                self._flow.start()
        return self

    async def _wired(self, store: Store, earlier: Embedder | None, index: VectorIndex | None) -> Flow:
        """Wire the running parts around a store. If this is interrupted, everything is closed, as `close` would."""
        flow: Flow | None = None
        try:
            flow = _part("flow").Flow(
                store,
                self._settings,
                self._embedder,
                self._clock,
                earlier,
                self._reranker,
                self._model,
                index,
                scratch=InMemoryStore,
            )
            await flow.indexing.check()
            await flow.reembedding.peek()
        except BaseException:
            await asyncio.shield(store.close() if flow is None else flow.let_go())
            raise
        return flow

    async def _opened(self) -> Store:
        url, settings = self._url, self._settings
        if not isinstance(url, str | Path) and not hasattr(url, "commit"):
            raise ValidationError("must be a URL, a path or a store", field="url")
        return await open_stores(
            url, settings.layers, busy_timeout_s=settings.busy_timeout_s, fallback=settings.fallback
        )

    async def close(self) -> None:
        """Run due jobs for two seconds at most, where this memory has a worker, and close the store.

        Jobs that are left wait for the next worker.
        """
        if self._flow is not None:
            flow, self._flow = self._flow, None
            self._closing = asyncio.ensure_future(flow.close())
        if self._closing is not None:
            # A caller that stops waiting does not stop the closing, and a second caller waits for the same one.
            await asyncio.shield(self._closing)

    def user(self, id: str, *, org: str = "default") -> User:
        """The handle of a user; everything done through it belongs to this user alone."""
        return User(self._running, Scope(validate.identifier(org, "org"), validate.identifier(id, "user")))

    def org(self, id: str = "default") -> Org:
        """The handle of an org: what all its users share."""
        return Org(self._running, Scope(validate.identifier(id, "org")))

    def entities(self, org: str = "default") -> EntityCache:
        """The business objects of an org, read through a loader and cached for a while."""
        return self.org(org).entities

    def masked(self, text: str) -> str:
        """The text as it would be stored, with everything masked that the settings say to mask."""
        return str(self._running.ledger.masked(validate.string(text, "text")))

    async def work(self) -> int:
        """Run due jobs until none are left. Returns the number of jobs run."""
        await self._running.flush_uses()
        return await self._running.worker.work()

    async def maintain(self, *, dry_run: bool = False) -> list[Maintained]:
        """Consolidate, retire what is not worth keeping and purge what is dead; with `dry_run`, only report."""
        only_tell = validate.switch(dry_run, "dry_run")
        await self._running.flush_uses()
        return [done async for done in self._running.upkeep.maintain(dry_run=only_tell)]

    async def reembed(
        self,
        *,
        user: str | None = None,
        org: str | None = None,
        dry_run: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> list[Reembedded]:
        """Re-embed what another embedder has embedded, for all users or some; with `dry_run`, only count.

        Everything stays searchable meanwhile. The call can be interrupted at any point and repeated.
        `told` is called with the number of records examined since its last call.
        """
        validate.function(told, "told")
        count_only = validate.switch(dry_run, "dry_run")
        meant = _meant(user, org)
        return [done async for done in self._running.reembedding.reembed(meant, dry_run=count_only, told=told)]

    async def reprocess(
        self,
        *,
        user: str | None = None,
        org: str | None = None,
        by: str | None = None,
        apply: bool = False,
        again: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> list[Reprocessed]:
        """Reprocess stored conversations, of all users or some, by `rules` or by the `model`; report what would change.

        Nothing changes without `apply`. A model resumes where it was stopped, or starts over with `again`. `told` is
        called with the number of messages read since its last call.
        """
        reprocessing = self._running.reprocessing
        given = _reprocess_options(by, apply, again)
        validate.function(told, "told")
        meant = [each for each in filter(_meant(user, org), await self._partitions()) if each.user]
        return [await reprocessing.run(partition, told=told, **given) for partition in meant]

    async def reindex(self, *, user: str | None = None, org: str | None = None) -> list[Reindexed]:
        """Bring the index beside the store in line with the store, for all users or some."""
        return [done async for done in self._running.indexing.reindex(_meant(user, org))]

    async def survey(self) -> Survey:
        """How much there is across all users; for operators."""
        return await self._running.ledger.store.survey(self._clock())

    async def users(self) -> list[Partition]:
        """Every (org, user) that has anything stored, without erased users; for operators."""
        return await _holding_any(self._running.ledger, await self._partitions())

    async def _partitions(self, *, with_own: bool = False) -> list[Partition]:
        named = named_partitions(self._running.ledger.store)
        return [each async for each in named if with_own or is_owned(each)]

    async def failures(self) -> list[Record]:
        """Work that was given up, of all users and of the library itself; for operators."""
        worker = self._running.worker
        everywhere = await self._partitions(with_own=True)
        return [failure for each in everywhere for failure in await worker.failures(each)]

    async def retry(self, failure: Record) -> None:
        """Give failed work of any user another round of attempts."""
        if not isinstance(failure, Record):
            raise ValidationError("must be a record returned by `failures`", field="failure")
        await self._running.worker.retry(failure.scope.partition, failure.id)

    async def check(self) -> list[str]:
        """What is wrong with the stored data; empty when all is well."""
        return list(await self._running.ledger.store.check())

    async def examine(self) -> list[Finding]:
        """Findings about the stores' servers (versions, durability, clocks), each with what to do about it."""
        return await examined(self._running.ledger.store)

    def describe(self) -> dict[str, Any]:
        """Which parts are in use: the store and its durability, the embedder, the worker."""
        flow = self._running
        return {
            "store": flow.ledger.store.describe(),
            "abilities": sorted(flow.ledger.store.abilities),
            "embedder": self._embedder.name if self._embedder else "none: words alone",
            "other_embedders": sorted(flow.indexes.other_models),
            "enrichment": f"rules, then {self._model.name}" if self._model else "rules, without a model",
            "model": dict(flow.allowance.figures) if flow.allowance else {},
            "states": {
                "embedder": flow.recall.embedder_state,
                "model": flow.allowance.state if flow.allowance else "none",
            },
            "tokens": self._settings.model or "estimated",
            "worker": self._told_of_worker(flow),
            "index": flow.indexes.describe(),
            "vectors": flow.indexing.describe(),
            "jobs": {"done": flow.worker.done, "failed": flow.worker.failed},
            "work": dict(flow.worker.took),
        }

    def _told_of_worker(self, flow: Flow) -> str:
        if not self._settings.worker:
            return "elsewhere"
        trouble = flow.worker.trouble
        return f"in this process, but it cannot look for work: {trouble}" if trouble else "in this process"

    def __repr__(self) -> str:
        return f"<Memory {'open' if self._flow else 'not open'}>"

    @property
    def _running(self) -> Flow:
        if self._flow is None:
            raise Unavailable(
                "the memory is not open; use `async with Memory.open() as memory`, with recollect.sync plain `with`",
                field="memory",
            )
        return self._flow


class User:
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
        return Session(self._flow, Scope(own.org, own.user, validate.agent(agent), validate.identifier(id, "session")))

    async def reprocess(
        self, *, session: str | None = None, by: str | None = None, apply: bool = False, again: bool = False
    ) -> Reprocessed:
        """Reprocess the user's conversations, or one of them; report what would change, and change it with `apply`."""
        given = _reprocess_options(by, apply, again)
        chosen = validate.optional_identifier(session, "session")
        return await self._flow.reprocessing.run(self._scope.partition, session=chosen, **given)

    async def sessions(self, *, limit: int = 100) -> list[SessionInfo]:
        """The user's sessions, the most recently active first."""
        validate.limit(limit)
        now = self._flow.ledger.clock()
        index = await self._flow.indexes.current(self._scope.partition)
        return [_session_info(index, self._scope, each, now) for each in index.activity(now)[:limit]]

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
        added = self._long_term.add([draft], _key(idempotency_key), only_new=validate.switch(only_new, "only_new"))
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
            return _call(long_term.draft, {"content": item} if isinstance(item, str) else item)

        drafts = validate.each(items, draft)
        chosen = validate.switch(only_new, "only_new")
        return await self._long_term.add(drafts, _key(idempotency_key), only_new=chosen)

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
        edits = validate.each(items, lambda item: _call(long_term.edit, item))
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
        return await _listed(self._flow, self._scope, layer, where, limit, after, at, newest_first)

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
        layers = _layers(layer)
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
        at: Any = None,
        quality: str | None = None,
        model: str | None = None,
    ) -> Context:
        """The best context for a question, outside any session."""
        wanted = self._flow.wanted(layers, sections, None)
        return await self._flow.context(self._scope, None, query, max_tokens, wanted, at, quality, model)

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
        return await self._privacy.export_page(validate.limit(limit), _cursor(after))

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


class Org:
    """What all users of an org share."""

    def __init__(self, flow: Flow, scope: Scope) -> None:
        self._flow = flow
        self._scope = scope

    def __repr__(self) -> str:
        return f"<Org {self.id!r}>"

    @property
    def id(self) -> str:
        return self._scope.org

    @property
    def entities(self) -> EntityCache:
        """Business objects, read through a loader and cached for a while."""
        return EntityCache(self._flow.ledger, self._scope.org, loads=self._flow.loads)

    @property
    def graph(self) -> Graph:
        """People, places and things that every user may know of."""
        return Graph(self._flow.ledger, self._scope)

    @property
    def learnings(self) -> Learnings:
        """What was learned for all users."""
        return Learnings(self._flow.ledger, self._scope)

    @property
    def customizations(self) -> Customizations:
        """Default instructions, below each user's own; `.of_agent(name)` gives those for one agent."""
        return Customizations(self._flow.ledger, self._scope)

    async def add_memory(
        self, content: str, *, metadata: Mapping[str, Any] | None = None, importance: float | None = None
    ) -> Record:
        """Remember a text that every user of the org may find."""
        draft = long_term.draft(content, metadata=metadata, importance=importance)
        return (await LongTerm(self._flow.ledger, self._scope).add([draft]))[0]

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
        """A page of what the org shares, in the form of `User.list_memories`."""
        return await _listed(self._flow, self._scope, layer, where, limit, after, at, newest_first)

    async def users(self, *, limit: int = 100, after: str | None = None) -> tuple[list[str], str | None]:
        """A page of the users that have anything stored, and the cursor of the next (None at the end).

        Erased users are left out, so a short page is not necessarily the last.
        """
        ledger = self._flow.ledger
        since = "" if after is None else validate.identifier(after, "after")
        own: list[Partition] = []
        async for each in named_partitions(ledger.store, Partition(self.id, since), validate.limit(limit)):
            if each.org != self.id or len(own) == limit:
                break
            own.append(each)
        found = await _holding_any(ledger, own)
        return [each.user for each in found], own[-1].user if len(own) == limit else None

    async def failures(self, *, limit: int = 100, after: str | None = None) -> tuple[list[Record], str | None]:
        """A page of the work that was given up for the org's users, and the cursor of the next (None at the end)."""
        user, inner = _place_of(after)
        users, last = ([user], user) if inner else await self.users(limit=limit, after=user)
        found: list[Record] = []
        for each in users:
            where = Filter(Partition(self.id, each), layers=("failure",))
            page = await self._flow.ledger.list(where, limit=limit - len(found), after=inner)
            found += page.records
            inner = None
            if page.after is not None or len(found) == limit:
                return found, _place(each, page.after)
        return found, None if last is None else _place(last, None)

    async def erase(self) -> Receipt:
        """Forget everything about the org: all its users, and what they share. Returns a receipt."""
        return await self._flow.erase_org(self._scope.org)

    async def forget(self, ids: str | Sequence[str]) -> Receipt:
        """Forget shared memories of the org, by id. Returns a receipt."""
        listed = [ids] if isinstance(ids, str) else validate.batch(ids, "ids")
        privacy = self._flow.privacy(self._scope.partition)
        return await privacy.forget_ids([validate.identifier(id, "ids") for id in listed])


class Session:
    """One conversation of a user with an agent."""

    def __init__(self, flow: Flow, scope: Scope) -> None:
        self._flow = flow
        self._scope = scope
        self._conversation = Conversation(flow.ledger, scope, flow.settings, flow.count)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} of user {self._scope.user!r}, org {self._scope.org!r}>"

    @property
    def id(self) -> str:
        return self._scope.session

    @property
    def user(self) -> User:
        """The handle of the user this session belongs to."""
        return User(self._flow, Scope(self._scope.org, self._scope.user))

    @property
    def working(self) -> Working:
        """Working memory: the state of the task at hand."""
        return Working(self._flow.ledger, self._scope)

    # ── messages in ──────────────────────────────────────────────────────────────────────────────

    async def add_message(
        self,
        role: str,
        content: str | list[dict[str, Any]] | None,
        *,
        id: str | None = None,
        name: str | None = None,
        created_at: Any = None,
        metadata: Mapping[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        tool_call_id: str | None = None,
        trust: str | None = None,
        reply_to: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Store a message. When this returns, it is kept; sent twice with the same id or key, it is stored once.

        With `trust="untrusted"` nothing is learned from it, as with all tool output. With `reply_to`, the id of
        another message, it raises `Conflict` if that message was forgotten meanwhile, alone or with its user.
        """
        draft = conversation.draft(
            role, content, id=id, name=name, created_at=created_at, metadata=metadata, tool_calls=tool_calls,
            tool_call_id=tool_call_id, trust=trust,
        )  # fmt: skip
        needs = () if reply_to is None else (validate.identifier(reply_to, "reply_to"),)
        return (await self._append([draft], idempotency_key, needs))[0]

    async def add_messages(
        self, messages: Sequence[Mapping[str, Any] | Message], *, idempotency_key: str | None = None
    ) -> list[Message]:
        """Store up to 90 messages in one commit, all or none.

        An item is a `Message` or the arguments of `add_message`.
        """

        def draft(item: Any) -> Record:
            given = _arguments(item) if isinstance(item, Message) else item
            return _call(conversation.draft, given, "messages")

        return await self._append(validate.each(messages, draft, "messages"), idempotency_key)

    async def add_interaction(
        self,
        user: str | list[dict[str, Any]],
        assistant: str | list[dict[str, Any]],
        *,
        created_at: Any = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> list[Message]:
        """Store what the user said and what the assistant answered, together or not at all."""
        drafts = [
            conversation.draft(role, content, created_at=created_at, metadata=metadata)
            for role, content in (("user", user), ("assistant", assistant))
        ]
        return await self._append(drafts, idempotency_key)

    async def _append(
        self, drafts: Sequence[Record], idempotency_key: str | None, needs: tuple[str, ...] = ()
    ) -> list[Message]:
        records = await self._conversation.append(drafts, _key(idempotency_key), needs)
        return [Message.from_record(record) for record in records]

    # ── messages out ─────────────────────────────────────────────────────────────────────────────

    async def window(
        self,
        strategy: str | None = None,
        *,
        messages: int | None = None,
        turns: int | None = None,
        tokens: int | None = None,
    ) -> list[Message]:
        """The newest part of the conversation: `last_messages` (50), `last_turns` (10), `token_budget` (4000),
        `sliding_window_summary` or `importance`; all limits that are given apply."""
        records = await self._conversation.window(strategy, messages=messages, turns=turns, tokens=tokens)
        return [Message.from_record(record) for record in records]

    async def messages(
        self, *, limit: int = 100, newest_first: bool = False, after: str | None = None
    ) -> tuple[list[Message], str | None]:
        """A page of the whole conversation, and the cursor of the next page (None at the end)."""
        where = Filter(self._scope.partition, layers=("conversation",), session=self._scope.session)
        page = await self._flow.ledger.list(
            where, newest_first=bool(newest_first), limit=validate.limit(limit), after=_cursor(after)
        )
        return [Message.from_record(record) for record in page.records], page.after

    async def get_context(
        self,
        query: str,
        *,
        max_tokens: int = 4_000,
        layers: Sequence[str] | None = None,
        sections: Sequence[str] | None = None,
        window: int | None = None,
        at: Any = None,
        quality: str | None = None,
        model: str | None = None,
    ) -> Context:
        """The best context for a question that fits the budget; its `messages` go to any chat model.

        `layers` and `sections` say what it is made of, `window` how many of the newest messages it holds at most.
        With `model`, tokens are counted as that model does, if its vocabulary is known.
        """
        wanted = self._flow.wanted(layers, sections, window)
        return await self._flow.context(self._scope, self._conversation, query, max_tokens, wanted, at, quality, model)

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
        """The user's memories that best answer a question; the same as on the user's handle."""
        return await self.user.search_memory(query, layer=layer, where=where, limit=limit, at=at, quality=quality)

    # ── the session as a whole ───────────────────────────────────────────────────────────────────

    async def customize(self, text: str, *, id: str | None = None) -> Customization:
        """Add a standing instruction for the agent of this session."""
        return await Customizations(self._flow.ledger, self._scope).add(text, id=id)

    async def close(self) -> list[Episode]:
        """End the conversation, which becomes an episode now. Returns the new episodes."""
        return await self.user.episodes.close(self._scope.session)

    async def compress(self) -> bool:
        """Fold the first half of what is not yet summarised into the running summary now."""
        return await self._conversation.compress()

    async def info(self) -> SessionInfo:
        """The session as `sessions` lists it: title, counts, last activity. Raises `NotFound` if it has no messages."""
        index, now = await self._flow.indexes.current(self._scope.partition), self._flow.ledger.clock()
        for activity in index.activity(now, self._scope.session):
            return _session_info(index, self._scope, activity, now)
        raise NotFound(field="session")

    async def rename(self, title: str) -> None:
        """Give the session a title."""
        await self._conversation.rename(title)

    async def title(self) -> str | None:
        """The title that the session was given, or None."""
        return await self._conversation.title()

    async def branch(self, message_id: str, into: str) -> Session:
        """Create a session that begins with this one's messages, up to and including that message."""
        scope = replace(self._scope, session=validate.identifier(into, "into"))
        await self._conversation.branch(validate.identifier(message_id, "message_id"), scope)
        return Session(self._flow, scope)

    async def export(self) -> dict[str, Any]:
        """The conversation as `{"session_id", "messages", "window_strategy", "max_tokens"}`."""
        return await self._conversation.export()

    async def delete(self) -> Receipt:
        """Forget the session: messages, summary, title and working state."""
        privacy = self._flow.privacy(self._scope.partition)
        return await privacy.forget_session(self._scope.session)


async def _holding_any(ledger: Ledger, partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions that hold anything. Messages are tried first: most have some, and one layer is faster to query."""

    async def holds(partition: Partition) -> bool:
        for layers in (("conversation",), ()):
            if (await ledger.list(Filter(partition, layers=layers), limit=1)).records:
                return True
        return False

    found: list[Partition] = []
    for start in range(0, len(partitions), SIDE_BY_SIDE):
        some = partitions[start : start + SIDE_BY_SIDE]
        found += [each for each, held in zip(some, await asyncio.gather(*map(holds, some)), strict=True) if held]
    return found


def _index_beside(settings: Settings, embedder: Embedder | None) -> VectorIndex | None:
    """The index that the settings name. If its driver is missing, search runs without it and a warning is logged."""
    if not settings.index or embedder is None:
        return None
    try:
        return open_index(settings.index, embedder.name)
    except Unavailable as error:
        log.warning("searching without the index beside the store: %s", error.message)
        return None


def _check_masking(setting: str) -> None:
    try:
        parse_kinds(setting)
    except ValueError as error:
        raise ValidationError(str(error), field="masking") from None


def _session_info(index: PartitionIndex, owner: Scope, activity: Activity, now: int) -> SessionInfo:
    """A session as it appears in a list."""
    scope = replace(owner, session=activity.session)
    head = index.head("session", scope, now)
    return SessionInfo(
        id=activity.session,
        title=head.content if head and head.content else _opening(index, activity.session, now),
        agent=next(index.newest(activity.session, now)).scope.agent,
        messages=activity.messages,
        created_at=as_datetime(next(index.oldest(activity.session, now)).when),
        last_activity=as_datetime(activity.last_at),
        parent=head.data.get("parent") if head else None,
    )


def _opening(index: PartitionIndex, session: str, now: int) -> str:
    """The name of a session without a title: what the user said first, or else what anyone said first."""
    shown = (each for each in index.oldest(session, now) if not is_aside(each))
    first = next(shown, None)
    if first is None:
        return session
    said = next((each for each in chain((first,), shown) if each.data["role"] == "user" and each.content), first)
    told = " ".join(said.content.split())
    return told if len(told) <= 60 else told[:59] + "…"


def _key(value: str | None) -> str | None:
    return validate.identifier(value, "idempotency_key") if value is not None else None


async def _listed(
    flow: Flow, scope: Scope, layer: str, where: Any, limit: int, after: str | None, at: Any, newest_first: bool
) -> tuple[list[Record], str | None]:
    """A page of what a partition holds, and the cursor of the next."""
    test = validate.where(where, at=validate.moment(at, "at"))
    filter = Filter(scope.partition, layers=(validate.layer(layer),), test=test)
    page = await flow.ledger.list(
        filter, newest_first=bool(newest_first), limit=validate.limit(limit), after=_cursor(after)
    )
    return list(page.records), page.after


def _cursor(value: str | None) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValidationError("not a cursor of this list; start again without one", field="after")
    return value


def _place(user: str, inner: str | None) -> str:
    """The cursor of a list that runs from user to user: the current user, and the position within that user."""
    return json.dumps([user, inner])


def _place_of(after: str | None) -> tuple[Any, Any]:
    if after is None:
        return None, None
    try:
        user, inner = json.loads(after)
        return validate.identifier(user, "after"), _cursor(inner)
    except (ValueError, TypeError, RecursionError):
        raise ValidationError("not a cursor of this list; start again without one", field="after") from None


def _layers(value: str | Sequence[str] | None) -> tuple[str, ...]:
    chosen = validate.layers(value, "layer")
    for layer in chosen:
        validate.choice(layer, SEARCHED_LAYERS, "layer")
    return chosen


def _arguments(message: Message) -> dict[str, Any]:
    names = ("role", "content", "name", "created_at", "metadata", "tool_calls", "tool_call_id")
    given = {name: getattr(message, name) for name in names} | ({"id": message.id} if message.id else {})
    return given if message.trust == "trusted" else given | {"trust": "untrusted"}


def _call(make: Callable[..., T], given: Any, field: str = "items") -> T:
    """Make a draft or an edit from named arguments; an unknown or missing name raises a typed error."""
    return make(**validate.named_fields(given, *_parameters(make), field))


@cache
def _parameters(make: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a function's parameters, and of those that are required."""
    taken = inspect.signature(make).parameters
    return tuple(taken), tuple(name for name, each in taken.items() if each.default is each.empty)


def _meant(user: str | None, org: str | None) -> Callable[[Partition], bool]:
    """A test for the partitions of this user, of this org, or all; a user under their veil is matched too."""
    of_user, of_org = validate.optional_identifier(user, "user"), validate.optional_identifier(org, "org")

    def is_of_user(partition: Partition) -> bool:
        if of_user is None or not is_veil(partition):
            return of_user in (None, partition.user)
        return partition == veil_of(Partition(partition.org, of_user))

    return lambda partition: of_org in (None, partition.org) and is_of_user(partition)


def _reprocess_options(by: Any, apply: Any, again: Any) -> dict[str, Any]:
    return {
        "by": None if by is None else validate.choice(by, READERS, "by"),
        "apply": validate.switch(apply, "apply"),
        "again": validate.switch(again, "again"),
    }
