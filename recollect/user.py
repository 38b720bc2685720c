"""The handle of one user: sessions, facts, contexts, trust. It carries the scope.

What it has in common with that of an org is in `owner.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recollect import validate
from recollect.arguments import reprocess_options
from recollect.context_policy import ContextPolicy
from recollect.conversation import SessionInfo
from recollect.cursors import Of, place, place_of
from recollect.customizations import Customization
from recollect.episodes import Episodes
from recollect.errors import ValidationError
from recollect.learnings import Learning
from recollect.owner import Owner
from recollect.profile import Fact, Facts, Profile, read_profile
from recollect.records import MINUTE_MS, Record, Scope
from recollect.session import Session, session_info
from recollect.working import Working

if TYPE_CHECKING:
    from recollect.context import Context
    from recollect.privacy import Receipt
    from recollect.reprocessing import Reprocessed
    from recollect.trust import SetAside, Trust, Undone


class User(Owner):
    """What is remembered about one user: `ann = memory.user("ann")`, with `org="acme"` in an org of its own."""

    def __repr__(self) -> str:
        return f"<User {self.id!r} of org {self._scope.org!r}>"

    @property
    def id(self) -> str:
        return self._scope.user

    @property
    def _trust(self) -> Trust:
        return self._flow.trust(self._scope)

    def session(self, id: str, *, agent: str = "") -> Session:
        """The handle of a session, which is created on first use.

        >>> chat = ann.session("monday", agent="support")
        >>> chat
        <Session 'monday' of agent 'support', user 'ann', org 'default'>
        """
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
        """The user's sessions, the most recently active first.

        >>> said = await chat.add_interaction("Hello!", "Hello Ann!")
        >>> [session.id for session in await ann.sessions()]
        ['monday']
        """
        return (await self.sessions_page(limit=limit))[0]

    async def sessions_page(
        self, *, limit: int = 100, after: str | None = None
    ) -> tuple[list[SessionInfo], str | None]:
        """A page of the user's sessions, the most recently active first, and the cursor of the next (None at the end).

        A session in which something is said meanwhile moves to the front, where the first page has it.
        """
        validate.limit(limit)
        of = (*self._scope.partition, "sessions")
        seen = None if after is None else _seen(of, after)
        now = self._flow.ledger.clock()
        index = await self._flow.indexes.current(self._scope.partition)
        left = [each for each in index.activity(now) if seen is None or (-each.last_at, each.session) > seen]
        page = left[:limit]
        found = [session_info(index, self._scope, each, now) for each in page]
        return found, place(of, page[-1].last_at, page[-1].session) if len(left) > limit else None

    # ── what is known about the user ─────────────────────────────────────────────────────────────

    async def profile(self, *, as_of: Any = None, known_at: Any = None) -> Profile:
        """What is known about the user now, or what was true (`as_of`) or believed (`known_at`) at some time.

        >>> fact = await ann.add_fact("city", "Oslo")
        >>> [(fact.key, fact.value) for fact in (await ann.profile()).facts]
        [('city', 'Oslo')]
        """
        return await read_profile(
            self._flow.ledger, self._scope, as_of=as_of, known_at=known_at, last_said=self._last_said
        )

    async def _last_said(self) -> int | None:
        index = await self._flow.indexes.current(self._scope.partition)
        return max((each.last_at for each in index.activity(self._flow.ledger.clock())), default=None)

    @property
    def facts(self) -> Facts:
        """What is known about the user, with its history."""
        return Facts(self._flow.ledger, self._scope)

    @property
    def preferences(self) -> Facts:
        """Named settings of the user, with their history."""
        return Facts(self._flow.ledger, self._scope, "preference")

    @property
    def episodes(self) -> Episodes:
        """Remembered stretches of conversation."""
        return Episodes(self._flow.ledger, self._scope, idle_ms=self._flow.settings.episode_idle_minutes * MINUTE_MS)

    async def upsert_facts(self, items: Sequence[Mapping[str, Any]]) -> list[Fact]:
        """State up to 30 facts in one commit: objects with `key`, `value` and anything else that `add_fact` takes.

        >>> facts = await ann.upsert_facts([{"key": "city", "value": "Oslo"}, {"key": "pet", "value": "Rex"}])
        """
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

        >>> fact = await ann.add_fact("city", "Oslo", valid_from="2019-01-01")
        >>> fact = await ann.add_fact("city", "Bergen", valid_from="2026-03-01")
        >>> [(fact.value, fact.status) for fact in await ann.facts.history("city")]
        [('Oslo', 'ended'), ('Bergen', 'told')]
        """
        return await self.facts.add(
            key, value, confidence=confidence, source_message_id=source_message_id, valid_from=valid_from,
            valid_to=valid_to,
        )  # fmt: skip

    async def update_preference(self, key: str, value: str) -> Fact:
        """Set a named setting of the user, such as `tone` or `theme`.

        >>> preference = await ann.update_preference("theme", "dark")
        >>> (await ann.profile()).preferences
        {'theme': 'dark'}
        """
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
        """Store what was learned: a `preference`, a `pattern` or a `correction`; `created_at` can backdate it.

        >>> learning = await ann.add_learning("asks for a summary before details")
        """
        return await self.learnings.add(
            content, type=type, confidence=confidence, source_message_id=source_message_id, created_at=created_at
        )

    async def customize(self, text: str, *, agent: str = "", id: str | None = None) -> Customization:
        """Add a standing instruction, for all agents or for one.

        >>> instruction = await ann.customize("Answer in two sentences.", agent="support")
        """
        return await self.customizations.of_agent(agent).add(text, id=id)

    # ── contexts ─────────────────────────────────────────────────────────────────────────────────

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
        """The best context for a question, outside any session.

        >>> note = await ann.add_memory("Ann takes the train at 9:40.")
        >>> context = await ann.get_context("When does the train leave?", max_tokens=500)
        >>> context.messages[-1]["role"], context.tokens <= 500
        ('user', True)
        """
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
        """Undo everything that was learned from a session, from a message or by an extractor; `redo` brings it back.

        >>> (message,) = await chat.add_messages([{"role": "user", "content": "I live in Oslo."}])
        >>> jobs = await memory.work()
        >>> undone = await ann.undo(message_id=message.id)
        >>> (await ann.profile()).facts
        ()
        """
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

    async def erase(self) -> Receipt:
        """Forget everything about the user, in every layer and file. Returns a receipt.

        >>> note = await ann.add_memory("Ann plays the cello.")
        >>> receipt = await ann.erase()
        >>> receipt.forgotten
        {'long_term': 1}
        """
        return await self._privacy.erase()

    async def import_records(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Store exported records under this user. Returns how many were new.

        >>> lines = await ann.export()
        >>> copied = await memory.user("ben").import_records(lines)
        """
        if not isinstance(records, Sequence) or isinstance(records, str | bytes):
            raise ValidationError("must be a list of exported records", field="records")
        return await self._exports.import_records(records)

    async def failures(self) -> list[Record]:
        """Work that was given up, each with its reason."""
        return await self._flow.worker.failures(self._scope.partition)

    async def retry(self, failure_id: str) -> None:
        """Give failed work another round of attempts."""
        await self._flow.worker.retry(self._scope.partition, validate.identifier(failure_id, "failure_id"))


def _seen(of: Of, after: str) -> tuple[int, str]:
    """What the cursor of a page of sessions says: how recent, and which, the last session was."""
    last_at, session = place_of(of, after)
    if not isinstance(last_at, int) or not isinstance(session, str):
        raise ValidationError(validate.NO_CURSOR, field="after")
    return -last_at, session
