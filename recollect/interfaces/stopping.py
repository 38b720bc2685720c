"""How a program is asked to end, on every system: by Ctrl-C, or by the signal of whoever started it."""

from __future__ import annotations

import asyncio
import signal

ASKS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]
"""Windows sends the last one for Ctrl-Break."""


def asked_to_stop() -> asyncio.Event:
    """An event that is set when this program is asked to end, so that it can finish what it has begun."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in ASKS:
        try:
            loop.add_signal_handler(name, stop.set)
        except NotImplementedError:  # the loops of Windows have no such handlers, but are woken by a signal
            signal.signal(name, lambda *_: loop.call_soon_threadsafe(stop.set))
    return stop
