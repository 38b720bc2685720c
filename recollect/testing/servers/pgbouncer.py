"""PgBouncer for tests: a pooler in front of a PostgreSQL server, where the program is installed.

RECOLLECT_TEST_PGBOUNCER=/usr/sbin/pgbouncer   names the program where it is not on the path
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from recollect.testing.servers import free_port
from recollect.testing.servers.postgres import PostgresServer

VARIABLE = "RECOLLECT_TEST_PGBOUNCER"
START_LIMIT_S = 10.0
_CONFIGURED = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
"""


@contextmanager
def pooler(server: PostgresServer, mode: str) -> Iterator[int]:
    """The port of a pooler for a server, with its usual configuration; `mode` is "session" or "transaction"."""
    program = os.environ.get(VARIABLE) or shutil.which("pgbouncer")
    if program is None:
        pytest.skip(f"no PgBouncer here: install it or set {VARIABLE}")
    port, user = free_port(), "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="recollect-pgbouncer-") as name:
        folder = Path(name)
        (folder / "users").write_text('"recollect" ""\n')
        (folder / "ini").write_text(_CONFIGURED.format(server=server.port, port=port, folder=folder, mode=mode))
        if user:
            shutil.chown(folder, user)
        process = subprocess.Popen([program, "-q", folder / "ini"], stderr=subprocess.DEVNULL, user=user)
        try:
            _wait_until_it_listens(port)
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait_until_it_listens(port: int) -> None:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise RuntimeError("PgBouncer did not start")
