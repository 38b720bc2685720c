"""The enricher that needs no model; its rules are loaded when the first message is read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from recollect.enrich import Found
from recollect.records import Record


def loaded() -> ModuleType:
    """The rules: hundreds of patterns, compiled by the first call. A process that only searches never waits for it."""
    return import_module("recollect.enrich.rules")


class Rules:
    """The enricher that needs no model. Reads what trusted users say, and nothing else."""

    name = "rules-1"
    immediate = True
    """Fast enough to ask whether a message is worth a job."""

    def __init__(self) -> None:
        self._rules: ModuleType | None = None

    async def drafts(self, messages: Sequence[Record]) -> Sequence[Found]:
        """What these messages of one session say, in message order."""
        if self._rules is None:
            self._rules = await asyncio.to_thread(loaded)
        found: list[Found] = []
        answered = ""
        for message in messages:
            role = message.data.get("role")
            if role == "user" and message.trust == "trusted":
                drafts = self._rules.read(message.content, message.when, answered=answered)
                found += [Found(message, draft) for draft in drafts]
            answered = message.content if role == "assistant" else ""
        return found
