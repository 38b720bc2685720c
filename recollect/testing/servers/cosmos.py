"""Cosmos DB for tests: the emulator of npm, with `cosmos_emulator.js` around it, started and stopped by us.

    RECOLLECT_TEST_COSMOS='cosmos://ACCOUNT.documents.azure.com:443/DATABASE?key=...'

names an account that is already there; each test makes a container in that database and removes it.
The emulator (`npm install --prefix .venv/cosmosdb-server @vercel/cosmosdb-server@1.0.1`) is looked for
in the folder `cosmosdb-server` of the Python environment that runs the tests.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from azure.cosmos import CosmosClient

from recollect.stores.cosmos_url import read_url
from recollect.testing.servers import kill

VARIABLE = "RECOLLECT_TEST_COSMOS"
PACKAGE = Path("cosmosdb-server/node_modules/@vercel/cosmosdb-server")
DATABASE = "recollect"
KEY = "ZW11bGF0b3I="
"""The emulator asks for a key and looks at none."""


class CosmosEmulator:
    """One emulator on this machine; what it holds is gone when it stops."""

    def __init__(self) -> None:
        node, package = shutil.which("node"), Path(sys.prefix) / PACKAGE
        if node is None:
            pytest.skip(f"no Cosmos DB emulator here: it needs node; or set {VARIABLE}")
        if not package.is_dir():
            pytest.skip(f"no Cosmos DB emulator here: run `make cosmos`, or set {VARIABLE}")
        script = Path(__file__).with_name("cosmos_emulator.js")
        # Its standard input is its life line: it ends when we do, however we end.
        self._process = subprocess.Popen(
            [node, str(script), str(package)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.stop)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def url(self, container: str) -> str:
        """How to reach a container in it."""
        return f"cosmos://127.0.0.1:{self.port}/{DATABASE}/{container}?key={KEY}&emulator=yes"

    def throttle(self, count: int, after_ms: int) -> None:
        """Let it refuse the next calls as a container does that is out of request units."""
        order = f"http://127.0.0.1:{self.port}/throttle?count={count}&after_ms={after_ms}"
        with urlopen(Request(order, method="POST")):
            pass

    def stop(self) -> None:
        atexit.unregister(self.stop)
        kill(self._process)


@cache
def shared_emulator() -> CosmosEmulator:
    """The one emulator of this test process."""
    return CosmosEmulator()


@contextmanager
def fresh_url() -> Iterator[str]:
    """The URL of a container that is not there yet; it is removed at the end."""
    container = f"test-{secrets.token_hex(6)}"
    given = os.environ.get(VARIABLE)
    if given:
        place, mark, query = given.partition("?")
        url = f"{place.rstrip('/')}/{container}{mark}{query}"
    else:
        url = shared_emulator().url(container)
    try:
        yield url
    finally:
        remove(url)


def remove(url: str) -> None:
    """Remove a container, if it was made."""
    where = read_url(url, os.environ)
    with CosmosClient(where.endpoint, where.key, enable_endpoint_discovery=not where.emulator) as client:
        names = [each["id"] for each in client.list_databases()]
        if where.database not in names:
            return
        database = client.get_database_client(where.database)
        if where.container in [each["id"] for each in database.list_containers()]:
            database.delete_container(where.container)
