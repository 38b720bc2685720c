"""The same verbs over every way in: a memory that is reached in Python, over REST, over MCP or by commands.

A surface gives handles with the verbs of `Memory`, so that one table of inputs serves all of them:
`python -m recollect.testing.matrix --over rest`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from recollect.memory import Memory
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.surfaces.commands import over_cli
from recollect.testing.surfaces.reached import Reached
from recollect.testing.surfaces.rest import over_rest
from recollect.testing.surfaces.tools import Mcp

Surface = Callable[..., AbstractAsyncContextManager[Any]]


def in_python(url: str, **changes: Any) -> Memory:
    """The memory itself, whose jobs run when they are told to."""
    given: dict[str, Any] = {"clock": ManualClock(), "embedder": HashingEmbedder(), "worker": False} | changes
    return Memory.open(url, **given)


@asynccontextmanager
async def over_mcp(url: str, **changes: Any) -> AsyncIterator[Reached]:
    async with in_python(url, **changes) as memory:
        yield Mcp(memory)


SURFACES: dict[str, Surface] = {"python": in_python, "rest": over_rest, "mcp": over_mcp, "cli": over_cli}
"""Name -> opens a memory at a URL that is reached that way."""
