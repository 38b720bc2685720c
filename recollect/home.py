"""The event loop that a memory was opened on: only tasks of that loop share what the memory holds in this process."""

from __future__ import annotations

import asyncio

from recollect.errors import Unavailable


class Home:
    """The loop that it is made on."""

    def __init__(self) -> None:
        self._loop = asyncio._get_running_loop()

    def check(self) -> None:
        """Refuse calls from another loop: its thread would read an index while ours changes it, and our worker would
        never hear of what it writes."""
        if self._loop is not asyncio._get_running_loop():
            raise Unavailable(
                "the memory was opened on another event loop; open it on this one, or use recollect.sync, "
                "which any thread or loop may call",
                field="memory",
            )
