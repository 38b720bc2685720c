"""Windows: the newest part of a conversation, by every measure.

A window is read from the newest message back, and reading stops when it has enough, so it costs only its own size.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from recollect import validate
from recollect.conversation import said_in, tokens_of
from recollect.ledger import Ledger
from recollect.policies import fitting
from recollect.policies.quarantine import ASIDE, heard, is_aside
from recollect.policies.tokens import TokenCounter
from recollect.records import Record, Scope
from recollect.running_summary import RunningSummary
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.index import PartitionIndex

STRATEGIES = ("last_messages", "last_turns", "token_budget", "sliding_window_summary", "importance")
TOOL_SLACK = 16
"""Messages read beyond a window so that a tool result at its edge still finds its call."""
IMPORTANCE_REACH = 4
"""The window by importance considers this many times its size of the newest messages."""
UNFOLDED_WINDOWS = 2
"""Windows of messages that are read for a context even if they have not been folded into the summary yet."""


class Windows:
    """The windows of one session."""

    def __init__(self, ledger: Ledger, scope: Scope, settings: Settings, count: TokenCounter) -> None:
        self._ledger = ledger
        self._scope = scope
        self._settings = settings
        self._tokens_of = partial(tokens_of, count=count)
        self.summary = RunningSummary(ledger, scope, settings, count)

    async def window(
        self,
        strategy: str | None = None,
        *,
        messages: int | None = None,
        turns: int | None = None,
        tokens: int | None = None,
    ) -> list[Record]:
        """The newest part of the conversation, in order; every limit that is given applies.

        A strategy sets the limit that it is named after, unless that is given. With
        `sliding_window_summary` the summary of what is older comes first, as a system message of
        its own; the limits apply to the messages after it. What was set aside is in no window.
        """
        for name, value in (("messages", messages), ("turns", turns)):
            if value is not None:
                validate.limit(value, name)
        if tokens is not None:
            validate.tokens_max(tokens, "tokens")
        if strategy is None:
            strategy = "last_messages" if messages is None and turns is None and tokens is None else "limits"
        else:
            validate.choice(strategy, STRATEGIES, "strategy")
        if strategy == "sliding_window_summary":
            return await self.summary.window(messages, turns, tokens)
        if strategy in ("last_messages", "importance"):
            messages = messages if messages is not None else self._settings.window_messages
        elif strategy == "last_turns":
            turns = turns if turns is not None else self._settings.window_turns
        elif strategy == "token_budget":
            tokens = tokens if tokens is not None else self._settings.window_tokens
        found = await self._newest(strategy, messages, turns, tokens)
        if strategy == "importance" and messages is not None:
            found = fitting.most_important(found, messages)
        elif messages is not None:
            found = fitting.last_messages(found, messages)
        if turns is not None:
            found = fitting.last_turns(found, turns)
        if tokens is not None:
            found = fitting.newest_within(found, tokens, self._tokens_of)
        return fitting.without_orphans(found)

    async def _newest(self, strategy: str, messages: int | None, turns: int | None, tokens: int | None) -> list[Record]:
        """The newest messages, from far enough back to be sure of every limit, in order."""
        reach = (messages or 0) * (IMPORTANCE_REACH if strategy == "importance" else 1)
        found: list[Record] = []
        after = None
        said = size = 0  # counted page by page: a large budget reads hundreds of pages
        where = said_in(self._scope.partition, self._scope.session)
        while True:
            limit = min((reach or 50) + TOOL_SLACK, 500)
            page = await self._ledger.list(where, newest_first=True, limit=limit, after=after)
            older, after = heard(page.records), page.after
            found.extend(older)
            said += sum(record.data["role"] == "user" for record in older)
            size += 0 if tokens is None else sum(map(self._tokens_of, older))
            enough = (
                (bool(messages) and len(found) >= reach + TOOL_SLACK)
                or (turns is not None and said > turns)
                or (tokens is not None and size > 2 * tokens)
            )
            if after is None or enough:
                return found[::-1]

    async def recent(self, tokens_max: int, index: PartitionIndex) -> tuple[Record | None, list[Record]]:
        """The newest messages that a budget may hold, and the running summary of what came before them.

        They begin where the summary ends, not where the budget does, so that the caller can cut them at the same
        place turn after turn.
        """
        now = self._ledger.clock()
        head = index.head("session", self._scope, now)
        if head is not None and ASIDE in head.data:
            return None, []  # including messages that nobody has looked at yet
        strategy = self._settings.window_strategy
        if strategy != "sliding_window_summary":
            kept = fitting.newest_within(await self.window(strategy), tokens_max, self._tokens_of)
            return None, fitting.without_orphans(kept, pending=False)
        summary = index.head("summary", self._scope, now)
        born = tuple(summary.data["covers"]["born"]) if summary else (0, 0)
        newest: list[Record] = []
        sizes: dict[str, int] = {}
        room = tokens_max = max(tokens_max, UNFOLDED_WINDOWS * self._settings.window_tokens)
        for message in index.newest(self._scope.session, now, after=born):
            if is_aside(message):
                continue
            newest.append(message)
            sizes[message.id] = self._tokens_of(message)
            room -= sizes[message.id]
            if room < 0 and message.data["role"] == "user":
                break  # a tool call comes after the user message that led to it
        kept = fitting.newest_within(newest[::-1], tokens_max, lambda message: sizes[message.id])
        return summary, fitting.without_orphans(kept, pending=False)
