"""What can be imported, by name: `recollect import --from KIND SOURCE`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module

from recollect import validate
from recollect.importers.items import Source
from recollect.importers.options import Options

JSONL = "jsonl"
KINDS = {
    JSONL: "jsonl",
    "langchain": "langchain",
    "langchain-postgres": "langchain",
    "langgraph": "langgraph",
    "openai-agents": "openai_agents",
    "mem0": "mem0",
    "mcp": "mcp_memory",
    "ai-sdk": "ai_sdk",
    "chatgpt": "chatgpt",
    "claude": "claude",
}
"""Kind of a source -> the module that reads it."""


def open_source(kind: str, where: str, options: Options | None = None) -> AbstractContextManager[Source]:
    """A source of a kind, open for as long as it is read. What it yields is for `writing.bring_in` to store."""
    reader = import_module(f"recollect.importers.{KINDS[validate.choice(kind, KINDS, 'from')]}")
    source: AbstractContextManager[Source] = reader.open_source(where, options or Options())
    return source
