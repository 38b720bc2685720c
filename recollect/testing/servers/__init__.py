"""Real servers for tests, each in a folder and on a port of its own, gone when the tests are over.

One file for each kind. Where the package with a server's programs is not installed, tests that need
it are skipped by name; an environment variable names a server that is already there.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from subprocess import Popen
from typing import Any

STOP_LIMIT_S = 10.0
"""How long a server may take to end."""


def free_port() -> int:
    """A port on this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nobody on this machine has this port."""
    with socket.socket() as asked, suppress(OSError):
        asked.bind(("127.0.0.1", port))
        return True
    return False


def kill(process: Popen[Any]) -> None:
    """End a server as a crash does, and close what we hold of it."""
    process.kill()
    process.wait(STOP_LIMIT_S)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
