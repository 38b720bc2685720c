"""Recollect: the memory of conversational agents.

    from recollect import Memory

    async with Memory.open() as memory:                    # recollect.db in this folder
        chat = memory.user("ann").session("monday")
        await chat.add_interaction("I like dark mode.", "Noted!")
        context = await chat.get_context("Which theme should I use?")

`recollect.sync` offers the same for code without `await`. Names are loaded on first use, so that
importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers treat it as true; importing `typing` would cost more than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from recollect.context import Context
    from recollect.context_policy import ContextPolicy
    from recollect.conversation import Message
    from recollect.errors import RecollectError
    from recollect.memory import Memory
    from recollect.providers import Embedder
    from recollect.records import Hit, Record, Scope, Source
    from recollect.session import Session
    from recollect.settings import Settings
    from recollect.user import User

__version__ = "0.1.0"

_HOMES = {
    "Context": "context",
    "ContextPolicy": "context_policy",
    "Embedder": "providers",
    "Hit": "records",
    "Memory": "memory",
    "Message": "conversation",
    "Record": "records",
    "RecollectError": "errors",
    "Scope": "records",
    "Session": "session",
    "Settings": "settings",
    "Source": "records",
    "User": "user",
}

__all__ = [
    "Context",
    "ContextPolicy",
    "Embedder",
    "Hit",
    "Memory",
    "Message",
    "RecollectError",
    "Record",
    "Scope",
    "Session",
    "Settings",
    "Source",
    "User",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    return getattr(import_module(f"recollect.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
