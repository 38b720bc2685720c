"""A way to a server that can be cut and mended: what a broken network is to a store."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from contextlib import suppress
from types import TracebackType

from recollect.testing.servers import free_port

BLOCK_BYTES = 1 << 16


class Proxy:
    """Passes bytes between its own port and a server's. `cut` hangs up on everyone and lets nobody in until `mend`.

    With a certificate (`tls`) its own side is encrypted, as that of a server with TLS is.
    """

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._target = port
        self._tls = tls
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Proxy:
        await self.mend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", self.port, ssl=self._tls)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            # A TLS transport of Python 3.11 whose connection is gone cannot be aborted any more.
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
        self._writers.clear()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # cancelled: the loop ends, and with it the way
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers |= {writer, there_writer}
            await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while block := await reader.read(BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
    writer.close()
