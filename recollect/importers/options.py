"""What a caller may say about a source, beside where it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Each is for some kinds of sources; the others pass it over."""

    session: str | None = None
    """For messages that name no session."""
    table: str | None = None
    """Which table, where several could be meant."""
    prefix: str | None = None
    """How the keys of a Redis begin."""
    user_segment: int | None = None
    """Which part of a namespace names the user, from zero (LangGraph)."""
