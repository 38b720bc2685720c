"""Waiting for a store no longer than whoever asks can wait: probes and scrapes have seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def promptly(seconds: float, call: Coroutine[Any, Any, T]) -> T:
    """What a call returns, or `TimeoutError` after this many seconds.

    `asyncio.timeout` would also wait until the call has ended. A driver may take long for that: to cancel a statement
    it has to ask the server, which is the one that does not answer.
    """
    task = asyncio.create_task(call)
    task.add_done_callback(seen)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()


def seen(task: asyncio.Task[Any]) -> None:
    """Mark a failure as retrieved: whoever asked may be gone."""
    if not task.cancelled():
        task.exception()
