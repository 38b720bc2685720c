"""The command line, run in this process with its own file; and a server in this process, with its client."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server_stage import client_of, opened

from recollect.testing.servers.postgres import shared_server
from recollect.testing.surfaces.commands import Ran, run_command


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/notes.db"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    for name in ("RECOLLECT_URL", "RECOLLECT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def recollect(url):
    def call(*arguments: str, input: str | bytes | None = None, at: str | None = url) -> Ran:
        where = ["--url", at] if at else []
        return run_command([*arguments, *where], input=input)

    return call


@pytest.fixture
async def service(clock):
    """What a server serves, with nothing in it yet."""
    async with opened(clock=clock) as service:
        yield service


@pytest.fixture
async def client(service):
    """A client of that server."""
    async with client_of(service) as client:
        yield client


@pytest.fixture
def lines(tmp_path):
    """Write a file of JSON Lines: objects, or bytes verbatim."""

    def write(*items: Any, name: str = "file.jsonl") -> str:
        path: Path = tmp_path / name
        path.write_bytes(b"".join(i if isinstance(i, bytes) else json.dumps(i).encode() + b"\n" for i in items))
        return str(path)

    return write


@pytest.fixture
def source_postgres():
    """The URL of an empty schema in a real PostgreSQL, as other programs would reach it."""
    schema = f"source_{secrets.token_hex(6)}"
    server = shared_server().url()
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"create schema {schema}".encode())
    yield f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema},public"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"drop schema {schema} cascade".encode())
