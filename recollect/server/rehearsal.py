"""A warm-up before serving: one turn in a memory that is thrown away.

Rules, token tables and the parts that build contexts are loaded lazily, on first use. After a rehearsal no caller
waits for that, and what is said right after the start is known as quickly as what is said later.
"""

from __future__ import annotations

from recollect.memory import Memory
from recollect.providers import StaticEmbedder
from recollect.settings import Settings


async def rehearse(memory: Memory, language: str) -> None:
    """Say something and ask for it, using only what comes with the package: no file, no model, no network."""
    has_vectors = memory.describe()["embedder"] == StaticEmbedder.name
    plain = Settings(embedder="static" if has_vectors else "none", language=language, worker=False)
    async with Memory.open("memory://", settings=plain) as scratch:
        ann = scratch.user("ann")
        await ann.session("rehearsal").add_message("user", "I moved to Lisbon in May, and my sister is called Joana.")
        await scratch.work()
        await ann.get_context("Where do I live?")
