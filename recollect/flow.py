"""The running parts, wired together once: the front door's handles pass their work to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from recollect import validate
from recollect.allowance import Allowance
from recollect.consolidation import Consolidation
from recollect.context import Context
from recollect.context_policy import ContextPolicy
from recollect.enrich.by_rules import Rules
from recollect.enrichment import Enrichment
from recollect.entities import Loads
from recollect.errors import RecollectError
from recollect.exports import Exports
from recollect.found import Question
from recollect.indexes import AWAKE, Indexes
from recollect.indexing import Indexing
from recollect.layers import with_lives
from recollect.learning import Learning
from recollect.ledger import Ledger
from recollect.models import ChatModel
from recollect.packing import ContextBuilder
from recollect.policies.learnings import Shown
from recollect.policies.masking import parse_kinds
from recollect.policies.tokens import TokenCounter, counter, remembering
from recollect.privacy import Privacy, Receipt, erase_org
from recollect.providers import Embedder, word_vectors
from recollect.reading import Reading
from recollect.recall import Recall
from recollect.records import DAY_MS, HOUR_MS, Clock, Partition, Scope
from recollect.reembedding import Reembedding
from recollect.reprocessing import Reprocessing
from recollect.reranking import Reranker, open_reranker
from recollect.settings import QUALITIES, Settings
from recollect.stores.contract import Store, VectorIndex, offers_of
from recollect.trust import Trust
from recollect.upkeep import Upkeep, note_uses
from recollect.windows import Windows
from recollect.worker import Worker

CONVERSATION_MS = 30 * DAY_MS
"""How long messages live if neither the settings nor the store says."""
USED_HITS = 5
"""Top hits of a context that count as used if they went into it."""
CLOSE_WORK_S = 2.0
"""How long closing keeps running jobs that are due; the rest waits for the next worker."""
USES_FLUSH_S = 30.0
"""How long use counts are collected before they are written together."""
USES_MAX = 50_000
"""How many memories may have uses that wait to be written, about ten MiB: while a store cannot be written, they would
pile up for ever."""


class Flow:
    """The running parts, wired together once."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        embedder: Embedder | None,
        clock: Clock,
        earlier: Embedder | None = None,
        reranker: Reranker | None = None,
        model: ChatModel | None = None,
        index: VectorIndex | None = None,
        *,
        scratch: Callable[[], Store],
    ) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        """The loop it runs on: callers on another loop or in a thread have to come here."""
        # The same lines recur, and counting is the most expensive part of packing.
        self.count: TokenCounter = remembering(counter(settings.model or None))
        layers = with_lives(_lives(settings, store))
        self.ledger = Ledger(store, clock, layers, parse_kinds(settings.masking), feeds_index=bool(settings.index))
        name, dimensions = (embedder.name, embedder.dimensions) if embedder else ("", 1)
        self.indexes = Indexes(store, name, dimensions, settings.language, settings.index_mib << 20,
                               earlier.name if earlier else "", settings.index_awake or AWAKE)  # fmt: skip
        self.ledger.on_drop = self.indexes.dropped
        self.ledger.index_of = self.indexes.at_hand
        self.indexing = Indexing(self.ledger, index, name, wanted=bool(settings.index and embedder))
        self.recall = Recall(
            self.indexes, self.indexing, embedder, settings.language, clock, earlier, word_vectors(embedder)
        )
        self.contexts = ContextBuilder(self.recall, self.count, clock, _shown(settings))
        self._counted: dict[TokenCounter, ContextBuilder] = {}
        rules = Rules()
        learning = Learning(self.ledger, self.indexes, rules if settings.learn else None)
        enrichment = Enrichment(self.ledger, self.indexes, embedder, learning, settings)
        consolidation = Consolidation(self.ledger, self.indexes, settings)
        self.model = model
        self.allowance = Allowance(model, self.ledger, settings, self.count) if model else None
        self.reading: Reading | None = None
        if self.allowance is not None:
            self.reading = Reading(self.ledger, self.indexes, self.allowance, settings, self.count)
        self.upkeep = Upkeep(self.ledger, self.indexes, consolidation, settings)
        self.worker = Worker(
            self.ledger, self.indexes, enrichment, consolidation, self.upkeep, self.indexing, settings, self.count,
            self.reading,
        )  # fmt: skip
        self.reprocessing = Reprocessing(self.ledger, self.indexes, rules, self.reading, settings, scratch)
        self.reembedding = Reembedding(self.ledger, self.indexes, embedder)
        self._embedders = (embedder, earlier)
        self.loads = Loads()
        self._uses: Counter[tuple[Partition, str]] = Counter()
        self._given_reranker = reranker
        self._reranker: asyncio.Future[Reranker | None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._flush_regularly())]
        if self.settings.worker:
            self._tasks.append(asyncio.create_task(self.worker.run()))

    async def context(
        self,
        scope: Scope,
        windows: Windows | None,
        query: str,
        max_tokens: int,
        policy: ContextPolicy,
        at: Any,
        model: str | None = None,
    ) -> Context:
        """The context for a question, in a session or outside any. What it uses is counted as used."""
        text = validate.query(query)
        budget = validate.tokens_max(max_tokens)
        builder = self.contexts if model is None else self._contexts_for(validate.identifier(model, "model"))
        reranker = await self.reranker(policy.quality)
        question = await self.question(scope, text, validate.moment(at, "at"))
        context = await builder.build(scope, windows, replace(question, text=text), budget, policy, reranker)
        # What is at the end only because there was room for it does not count as used.
        found = {hit.id for hit in context.hits[:USED_HITS]}
        own = self.indexes.as_left(scope.partition)
        if own is None:
            return context  # evicted already: a count is not worth reading it all again
        for source in context.sources:
            if source.layer == "learning" or (source.layer == "long_term" and source.id in found):
                self._note_use(scope.partition if source.id in own.row_of else Partition(scope.org, ""), source.id)
        return context

    def _note_use(self, owner: Partition, id: str) -> None:
        """Count a use until it is written; above `USES_MAX`, only of memories that are counted already."""
        if len(self._uses) < USES_MAX or (owner, id) in self._uses:
            self._uses[owner, id] += 1

    def _contexts_for(self, model: str) -> ContextBuilder:
        """A builder that counts tokens as a model does; models that count alike share one."""
        count = counter(model)
        if count not in self._counted:
            self._counted[count] = self.contexts.counting(remembering(count))
        return self._counted[count]

    async def question(self, scope: Scope, text: str, at: int | None) -> Question:
        """A question, ready to be searched for; rephrased by a model as well, if the settings say so."""
        reading = self.reading if self.settings.llm_rewrite else None
        also = await reading.rewrites(scope.org, text) if reading else ()
        return await self.recall.question(text, at, also)

    async def reranker(self, quality: str | None) -> Reranker | None:
        """The reranker if `best` is asked for, by the caller or else by the settings. Opened once, when needed."""
        wanted = self.settings.quality if quality is None else validate.choice(quality, QUALITIES, "quality")
        if wanted != "best":
            return None
        if self._given_reranker is not None:
            return self._given_reranker
        if self._reranker is None:
            self._reranker = asyncio.ensure_future(asyncio.to_thread(open_reranker, self.settings.reranker))
        return await asyncio.shield(self._reranker)

    async def flush_uses(self) -> None:
        """Write the uses that were counted since the last time."""
        uses, self._uses = self._uses, Counter()
        try:
            await note_uses(self.ledger, uses)
        except BaseException:
            self._uses.update(uses)  # those already written are no longer in it
            raise

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(USES_FLUSH_S)
            try:
                await self.flush_uses()
            except Exception:  # no error may end this loop: the counts are kept and retried
                continue

    def privacy(self, partition: Partition) -> Privacy:
        """Forgetting and erasing what one partition holds."""
        return Privacy(self.ledger, self.indexes, partition)

    def exports(self, partition: Partition) -> Exports:
        """Exporting what one partition holds, and importing into it."""
        return Exports(self.ledger, partition)

    def trust(self, scope: Scope) -> Trust:
        """Quarantining, releasing and undoing, for one user."""
        return Trust(self.ledger, self.indexes, scope)

    async def erase_org(self, org: str) -> Receipt:
        """Forget everything about an org."""
        return await erase_org(self.ledger, self.indexes, org)

    async def close(self) -> None:
        """Do for a moment what is due, write the uses, and close everything that was opened."""
        is_home = self.loop is asyncio.get_running_loop()  # on another loop its tasks are out of reach, or gone
        try:
            if is_home:
                await self._wind_up()
        except RecollectError:
            pass  # this is only counts and work for later: what users said is already stored
        finally:
            for task in self._tasks:
                task.cancel()
            if is_home:
                await self.loads.close()
            await self.let_go()

    async def let_go(self) -> None:
        """Close everything that was opened, and do nothing else. What cannot be closed keeps nothing else open."""
        async with AsyncExitStack() as last_first:
            for remote in (self.model, *self._embedders):
                disconnect = getattr(remote, "disconnect", None)
                if disconnect is not None:
                    last_first.push_async_callback(disconnect)
            last_first.push_async_callback(self.indexing.close)
            last_first.push_async_callback(self.ledger.store.close)
            self.indexes.close()

    async def _wind_up(self) -> None:
        await self._finish_work()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.worker.stop()
        await self.flush_uses()
        await self.indexes.kept_all()

    async def _finish_work(self) -> None:
        """Run due jobs for a moment, so that a short script leaves nothing to the next one."""
        if self.settings.worker:
            try:
                async with asyncio.timeout(CLOSE_WORK_S):
                    await self.worker.work()
            except TimeoutError:
                pass


def _shown(settings: Settings) -> Shown:
    above = validate.unit_interval(settings.learnings_above, "learnings_above")
    return Shown(settings.learnings_in_prompt, above)


def _lives(settings: Settings, store: Store) -> dict[str, int | None]:
    """The lifetimes that a deployment sets, or that its store proposes."""
    proposed = offers_of(store).lives
    days = settings.conversation_days
    conversation = proposed.get("conversation", CONVERSATION_MS) if days is None else days * DAY_MS
    lives = {
        "conversation": conversation,
        "working": settings.working_hours * HOUR_MS,
        **validate.lives(settings.lives),
    }
    return {**lives, "summary": lives["conversation"]}
