"""What adapters keep beside a message: a shell that only their framework can read, with holes for the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEEPERS = ("langchain", "openai_agents", "pydantic_ai")
"""Names under which adapters keep shells: what only their framework can read, in the metadata or in the first part."""
FRAMEWORKS = (*KEEPERS, "ai_sdk")
"""The same, plus that of the TypeScript package, which stores shells over REST."""
HOLE = "<text>"
"""Replaces a text in a shell."""


def readable(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part without what only a framework can read."""
    return {name: value for name, value in part.items() if name not in FRAMEWORKS}
