"""The front door: `Memory` opens a store, wires the flow together, and hands out handles that carry the scope.

The handles are in `user.py`, `session.py` and `org.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from recollect import validate
from recollect.arguments import reprocess_options
from recollect.entities import EntityCache
from recollect.errors import Unavailable, ValidationError
from recollect.handles import Opened
from recollect.models import ChatModel, Given, as_model, open_model
from recollect.org import Org, holding_any, of_each
from recollect.policies.masking import parse_kinds
from recollect.policies.tokens import told_counter
from recollect.records import Clock, Partition, Record, Scope, system_clock
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
from recollect.user import User
from recollect.windows import STRATEGIES

if TYPE_CHECKING:
    from recollect.flow import Flow
    from recollect.indexing import Reindexed
    from recollect.providers import Embedder
    from recollect.reembedding import Reembedded
    from recollect.reprocessing import Reprocessed
    from recollect.reranking import Reranker
    from recollect.setting_changes import SettingChanges
    from recollect.upkeep import Maintained

log = logging.getLogger("recollect.memory")


def _part(name: str) -> ModuleType:
    """A module behind the front door, loaded when the first memory is opened because it imports numpy and more."""
    return import_module(f"recollect.{name}")


class Memory(Opened):
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
        validate.choice(chosen.window_strategy, STRATEGIES, "window_strategy")
        validate.choice(chosen.quality, QUALITIES, "quality")
        validate.choice(chosen.fallback, FALLBACKS, "fallback")
        check_routes(chosen.layers)
        check_index(chosen.index)
        _check_masking(chosen.masking)
        if chosen.language != "en":
            chosen = chosen.with_({"language": _language(chosen.language)})
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
        """Run due jobs until none are left, and wait for those that this process is already running.

        Returns the number of jobs run by this call.
        """
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
        given = reprocess_options(by, apply, again)
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
        return await holding_any(self._running.ledger, await self._partitions())

    async def _partitions(self, *, with_own: bool = False) -> list[Partition]:
        named = named_partitions(self._running.ledger.store)
        return [each async for each in named if with_own or is_owned(each)]

    async def failures(self) -> list[Record]:
        """Work that was given up, of all users and of the library itself; for operators."""
        if not (await self.survey()).records.get("failure"):
            return []  # one look, however many users there are
        everywhere = await self._partitions(with_own=True)
        found = await of_each(everywhere, self._running.worker.failures)
        return [failure for some in found for failure in some]

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
            "tokens": told_counter(self._settings.model),
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
        if self._flow is None:
            return f"<Memory {'closed' if self._closing else 'not open'}>"
        told = self._flow.ledger.store.describe()
        return f"<Memory in {told.get('url', told.get('store', 'a store'))}>"

    @property
    def _running(self) -> Flow:
        if self._flow is None and self._closing is not None:
            raise Unavailable("the memory is closed; open it again, and take a new handle from it", field="memory")
        if self._flow is None:
            raise Unavailable(
                "the memory is not open; use `async with Memory.open() as memory` or `memory = await Memory.open()`; "
                "with recollect.sync, plain `with` or `memory = Memory.open().start()`",
                field="memory",
            )
        return self._flow


def _index_beside(settings: Settings, embedder: Embedder | None) -> VectorIndex | None:
    """The index that the settings name. If its driver is missing, search runs without it and a warning is logged."""
    if not settings.index or embedder is None:
        return None
    try:
        return open_index(settings.index, embedder.name)
    except Unavailable as error:
        log.warning("searching without the index beside the store: %s", error.message)
        return None


def _language(setting: str) -> str:
    """The code of a language: `de` for `de-AT` and for `german`."""
    languages = _part("policies.languages")
    code: str | None = languages.code_of(setting)
    if code is None:
        known = ", ".join(sorted(["en", *languages.LANGUAGES]))
        raise ValidationError(f"must be the code of a language: {known}; any other is neutral", field="language")
    return code


def _check_masking(setting: str) -> None:
    try:
        parse_kinds(setting)
    except ValueError as error:
        raise ValidationError(str(error), field="masking") from None


def _meant(user: str | None, org: str | None) -> Callable[[Partition], bool]:
    """A test for the partitions of this user, of this org, or all; a user under their veil is matched too."""
    of_user, of_org = validate.optional_identifier(user, "user"), validate.optional_identifier(org, "org")

    def is_of_user(partition: Partition) -> bool:
        if of_user is None or not is_veil(partition):
            return of_user in (None, partition.user)
        return partition == veil_of(Partition(partition.org, of_user))

    return lambda partition: of_org in (None, partition.org) and is_of_user(partition)
