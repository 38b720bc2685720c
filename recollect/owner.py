"""What the handles of a user and of an org have in common: memories to add, find, change and forget.

Each verb is a few lines: validate the arguments, then pass them to the part of the flow that does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recollect import conditions, long_term, validate
from recollect.arguments import call, key, searched_layers
from recollect.customizations import Customizations
from recollect.errors import NotFound, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.graph import Graph
from recollect.handles import Handle
from recollect.learnings import Learnings
from recollect.long_term import LongTerm
from recollect.records import Hit, Record, Scope

if TYPE_CHECKING:
    from recollect.exports import Exports
    from recollect.flow import Flow
    from recollect.privacy import Privacy, Receipt
    from recollect.upkeep import Maintained

EDITS_MAX = 45
"""Edits per call: each also writes the previous state, and all go into one commit."""


class Owner(Handle):
    """Whoever memories belong to: a user, or an org whose users share them."""

    def __init__(self, flow: Flow, scope: Scope) -> None:
        self._flow = flow
        self._scope = scope
        self._long_term = LongTerm(flow.ledger, scope)

    @property
    def _privacy(self) -> Privacy:
        return self._flow.privacy(self._scope.partition)

    @property
    def _exports(self) -> Exports:
        return self._flow.exports(self._scope.partition)

    def _own(self, draft: Record) -> Record:
        """A draft that this owner can have: an org has no episodes, since nothing is said to it."""
        if not self._scope.user and not self._flow.ledger.layers[draft.layer].org_wide:
            raise ValidationError("must be long_term: users have the other layers", field="layer")
        return draft

    @property
    def learnings(self) -> Learnings:
        """Preferences, patterns and corrections that were learned, from working with the user or for all of them."""
        return Learnings(self._flow.ledger, self._scope)

    @property
    def customizations(self) -> Customizations:
        """Standing instructions for all agents; `.of_agent(name)` gives those for one. An org's are the defaults."""
        return Customizations(self._flow.ledger, self._scope)

    @property
    def graph(self) -> Graph:
        """People, places and things, and how they are related: those a user mentions, or all users may know of."""
        return Graph(self._flow.ledger, self._scope)

    # ── memories ─────────────────────────────────────────────────────────────────────────────────

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

        >>> note = await ann.add_memory("Ann plays the cello.", metadata={"topic": "music"})
        >>> note.content
        'Ann plays the cello.'
        """
        draft = long_term.draft(
            content, layer=layer, id=id, metadata=metadata, importance=importance, confidence=confidence,
            created_at=created_at, expires_at=expires_at, trust=trust,
        )  # fmt: skip
        chosen = validate.switch(only_new, "only_new")
        return (await self._long_term.add([self._own(draft)], key(idempotency_key), only_new=chosen))[0]

    async def add_memories(
        self,
        items: Sequence[str | Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        only_new: bool = False,
    ) -> list[Record]:
        """Remember up to 90 texts in one commit, all or none. An item is a text or the arguments of `add_memory`.

        With `only_new`, it raises `Conflict` if any of them is already there.

        >>> notes = await ann.add_memories(["Ann has a dog.", {"content": "It is called Rex.", "importance": 0.9}])
        >>> len(notes)
        2
        """

        def draft(item: Any) -> Record:
            return self._own(call(long_term.draft, {"content": item} if isinstance(item, str) else item))

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

        >>> note = await ann.add_memory("The shop closes at six.")
        >>> note = await ann.update_memory(note.id, content="The shop closes at seven.", version=note.version)
        >>> [state.content for state in await ann.history(note.id)]
        ['The shop closes at six.', 'The shop closes at seven.']
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
        """The earlier states of a memory, oldest first, then the current one.

        >>> note = await ann.add_memory("The shop closes at six.")
        >>> [state.version == note.version for state in await ann.history(note.id)]
        [True]
        """
        return await self._long_term.history(id)

    async def histories(self, ids: Sequence[str]) -> list[list[Record]]:
        """The histories of the memories with these ids, in the order asked; missing ones are skipped."""
        return await self._long_term.histories(validate.batch(ids, "ids"))

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

        >>> notes = await ann.add_memories(["Ann has a dog.", "It is called Rex."])
        >>> page, after = await ann.list_memories(limit=1)
        >>> page, after = await ann.list_memories(limit=1, after=after)
        >>> page[0].content
        'It is called Rex.'
        """
        test = conditions.parse(where, at=validate.moment(at, "at"))
        filter = Filter(self._scope.partition, layers=(validate.layer(layer),), test=test)
        page = await self._flow.ledger.list(
            filter, newest_first=bool(newest_first), limit=validate.limit(limit), after=validate.cursor(after)
        )
        return list(page.records), page.after

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
        """The hits that best answer a question, in all layers or in some, each with its reasons.

        >>> notes = await ann.add_memories(["Ann plays the cello.", "Ann lives in Oslo."])
        >>> hits = await ann.search_memory("Where does Ann live?", layer="long_term", limit=1)
        >>> hits[0].content
        'Ann lives in Oslo.'
        """
        text = validate.query(query)
        layers = searched_layers(layer)
        reranker = await self._flow.reranker(quality)
        moment = validate.moment(at, "at")
        test = conditions.parse(where, at=self._flow.ledger.clock() if moment is None else moment)
        question = await self._flow.question(self._scope, text, moment)
        hits = await self._flow.recall.search(
            self._scope, question, layers=layers, test=test, limit=validate.limit(limit), reranker=reranker
        )
        return [hit.apart() for hit in hits]  # copies, because other callers share the records of the index

    # ── privacy and upkeep ───────────────────────────────────────────────────────────────────────

    async def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        layer: str | Sequence[str] | None = None,
    ) -> Receipt:
        """Forget memories by id or by filter, with everything that rests on them. Returns a receipt.

        >>> note = await ann.add_memory("Ann plays the cello.")
        >>> (await ann.forget(note.id)).forgotten
        {'long_term': 1}
        """
        if (ids is None) == (where is None):
            raise ValidationError("give ids or a filter", field="ids")
        if ids is not None:
            listed = [ids] if isinstance(ids, str) else validate.batch(ids, "ids")
            return await self._privacy.forget_ids([validate.identifier(id, "ids") for id in listed])
        test = conditions.parse(where, at=self._flow.ledger.clock())
        if test is None:
            raise ValidationError("an empty filter would forget everything; use erase() for that", field="where")
        return await self._privacy.forget_where(test, validate.layers(layer, "layer"))

    async def export(self) -> list[dict[str, Any]]:
        """Everything about the user, or all that the org shares, as JSON objects; the first describes the export.

        >>> lines = await ann.export()
        >>> copied = await memory.user("ben").import_records(lines)
        """
        return [line async for line in self._exports.export()]

    async def export_page(
        self, *, limit: int = 500, after: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of the export, and the cursor of the next (None at the end), for exports too large for memory."""
        return await self._exports.export_page(validate.limit(limit), validate.cursor(after))

    async def restore(self, id: str) -> Record:
        """Bring back a memory that pruning retired or merging ended."""
        return await self._flow.upkeep.restore(self._scope.partition, validate.identifier(id, "id"))

    async def maintain(self, *, dry_run: bool = False) -> Maintained:
        """Consolidate, prune and purge these memories; with `dry_run`, only report."""
        only_tell = validate.switch(dry_run, "dry_run")
        async for done in self._flow.upkeep.maintain(self._scope.partition, dry_run=only_tell):
            return done
        raise NotFound(field="user")
