"""What a caller may say about a source, besides where it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Each option is for some kinds of sources; the others ignore it."""

    session: str | None = None
    """For messages that name no session."""
    table: str | None = None
    """Which table, where several could be meant."""
    prefix: str | None = None
    """How the keys in Redis begin."""
    user_segment: int | None = None
    """Which part of a namespace names the user, from zero (LangGraph)."""
