"""A proxy to a server that can be cut and mended, and that counts what passes through it."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable, MutableSequence
from contextlib import suppress

from recollect.testing.servers import free_port

BLOCK_BYTES = 1 << 16
LOST_AFTER_S = 0.05
"""By then, a server has carried out what it was sent before, and its answer is lost."""


class Traffic:
    """What passed through a proxy: round trips, and bytes to the server and back.

    A round trip is whatever is sent before the next answer. The numbers may be kept where another process reads them.
    """

    NUMBERS = 3

    def __init__(self, numbers: MutableSequence[int] | None = None) -> None:
        self._numbers: MutableSequence[int] = [0] * self.NUMBERS if numbers is None else numbers

    @property
    def so_far(self) -> tuple[int, int, int]:
        """Round trips, bytes sent and bytes received."""
        trips, sent, received = self._numbers
        return trips, sent, received

    def count(self, *, trips: int = 0, sent: int = 0, received: int = 0) -> None:
        for place, more in enumerate((trips, sent, received)):
            self._numbers[place] += more


class Proxy:
    """Passes bytes between its own port and a server's. `cut` hangs up on everyone and lets nobody in until `mend`.

    `hang_up` lets everyone in again at once. So does `lose_answers`, but for a moment before that it passes on what the
    server is asked, and no answer. `stall` hangs up on nobody and passes nothing on until `resume`, like a network that
    lost its way to the server. With a certificate (`tls`) its own side is encrypted, like that of a server with TLS.
    """

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None, traffic: Traffic | None = None) -> None:
        self.traffic = traffic or Traffic()
        self._target = port
        self._tls = tls
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._callers: set[asyncio.StreamWriter] = set()
        self._unanswered: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Proxy:
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", self.port, ssl=self._tls)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()

    def hang_up(self) -> None:
        _abort(self._writers)
        self._writers.clear()
        self._callers.clear()

    def lose_answers(self) -> None:
        self._unanswered |= self._callers
        asyncio.get_running_loop().call_later(LOST_AFTER_S, _abort, list(self._callers))

    @property
    def connections(self) -> int:
        """How many connections there are to it."""
        return len(self._writers) // 2

    def stall(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # cancelled: the loop ends, and the proxy with it
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers |= {writer, there_writer}
            self._callers.add(writer)
            spoken = _Spoken(self.traffic)
            await asyncio.gather(
                self._pass_on(reader, there_writer, spoken.asked), self._pass_on(there_reader, writer, spoken.answered)
            )
            self._writers -= {writer, there_writer}
            self._callers.discard(writer)
            self._unanswered.discard(writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[bytes], None]
    ) -> None:
        with suppress(OSError):
            while block := await reader.read(BLOCK_BYTES):
                await self._flowing.wait()
                if writer in self._unanswered:
                    continue
                count(block)
                writer.write(block)
                await writer.drain()
        writer.close()


def in_front_of(url: str) -> tuple[Proxy, str] | None:
    """A proxy for the server of a URL, and the URL that leads through it. None if it is not on this machine."""
    found = re.search(r"127\.0\.0\.1:(\d+)", url)
    if found is None:
        return None
    proxy = Proxy(int(found[1]))
    return proxy, url.replace(found[0], f"127.0.0.1:{proxy.port}")


def _abort(writers: Iterable[asyncio.StreamWriter]) -> None:
    for writer in writers:
        # In Python 3.11, a TLS transport whose connection is gone can no longer be aborted.
        with suppress(AttributeError):
            writer.transport.abort()


class _Spoken:
    """One connection: a question begins when the last thing that came was an answer."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._is_answered = True

    def asked(self, block: bytes) -> None:
        self._traffic.count(trips=int(self._is_answered), sent=len(block))
        self._is_answered = False

    def answered(self, block: bytes) -> None:
        self._traffic.count(received=len(block))
        self._is_answered = True
