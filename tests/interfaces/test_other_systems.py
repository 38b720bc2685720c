"""Nothing but Linux runs these tests, so here it is made to lack what Windows and macOS lack, or to do as they do."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import as_on_windows
import pytest

from recollect import aside, episodes, sync, wire
from recollect.aside import Aside
from recollect.errors import Unavailable, ValidationError
from recollect.interfaces.cli import is_closed_pipe
from recollect.interfaces.options import loop_of
from recollect.interfaces.output import day_and_time, here
from recollect.server import processes
from recollect.settings import Settings
from recollect.stores import open_store
from recollect.stores.loops import loop_for

PACKAGE = Path(sync.__file__).parent
CP1252 = {"PYTHONIOENCODING": "cp1252"}
"""What Python encodes pipes with on most Windows systems."""
MET = "I met Jürgen 😀 in Łódź."
COMMANDS = [
    ["add", MET],
    ["list", "--json"],
    ["list"],
    ["chat", "--script", "script.txt", "--session", "monday"],
    ["sessions", "--show", "monday", "--json"],
    ["export", "me.jsonl"],
    ["import", "me.jsonl", "--user", "ben", "--report", "report.jsonl"],
    ["backup", "backup.db"],
    ["restore", "backup.db", "--url", "sqlite:///restored.db"],
    ["worker"],
    ["erase", "--user", "me", "--yes"],
]
RUN_ALL = """
import json, sys
from recollect.__main__ import main
for line in sys.argv[1:]:
    sys.argv = ["recollect", *json.loads(line)]
    try:
        main()
    except SystemExit as ended:
        sys.stdout.flush()
        print("ended:", sys.argv[1], ended.code, file=sys.stderr, flush=True)
        print("\\0", end="", flush=True)
"""


imitated = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are listed as Linux tells them")


def started(code: str, *arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process that runs this code as on Windows."""
    return subprocess.Popen(
        [sys.executable, "-X", "warn_default_encoding", as_on_windows.__file__, code, *arguments],
        cwd=folder, env=os.environ | CP1252, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@imitated
def test_commands_work_without_what_windows_lacks_and_write_the_same_bytes(tmp_path):
    (tmp_path / "recollect.toml").write_text("worker = false", encoding="utf-8")
    (tmp_path / "script.txt").write_bytes("\ufeffI like Brie – really 😀.\r\nWhat do I like?\r\n".encode())
    out = b""
    with started(RUN_ALL, *map(json.dumps, COMMANDS), folder=tmp_path) as process:
        while not out.endswith(b"done, 0 given up.\n"):
            out += (line := process.stdout.readline())
            assert line, process.stderr.read()
        process.send_signal(signal.SIGINT)  # which ends the worker cleanly, though its loop has no signal handlers
        rest, err = process.communicate(timeout=120)
        out += rest
    assert err.decode().splitlines() == [f"ended: {words[0]} 0" for words in COMMANDS]
    assert b"\r" not in out
    told = dict(zip(map(tuple, COMMANDS), out.decode("cp1252").split("\0"), strict=False))
    assert json.loads(told["list", "--json"])[0]["content"] == MET
    shown = json.loads(told["sessions", "--show", "monday", "--json"])
    assert shown["messages"][0]["content"] == "I like Brie – really 😀."
    assert r"I met Jürgen \U0001f600 in \u0141ód\u017a." in told["list",]
    for name in ("me.jsonl", "report.jsonl"):
        assert b"\r" not in (tmp_path / name).read_bytes()
    assert MET in (tmp_path / "me.jsonl").read_text(encoding="utf-8")


# ── what the code must not do ────────────────────────────────────────────────────────────────────


def test_no_module_needs_another_that_windows_lacks():
    needs = re.compile(rf"^(?:import|from) (?:{'|'.join(as_on_windows.MODULES)})\b", re.MULTILINE)
    files = [path for path in PACKAGE.rglob("*.py") if "testing" not in path.parts]
    assert [path.name for path in files if needs.search(path.read_text(encoding="utf-8"))] == []


# ── times ────────────────────────────────────────────────────────────────────────────────────────


class OnWindows(datetime):
    """A time whose local form Windows does not know."""

    def astimezone(self, tz=None):
        if tz is None or self.tzinfo is None:
            raise OSError(errno.EINVAL, "Invalid argument")
        return super().astimezone(tz)

    def timestamp(self):
        raise OSError(errno.EINVAL, "Invalid argument")


def test_times_before_1970_are_shown_in_utc_where_the_machine_cannot_tell():
    assert day_and_time(OnWindows(1965, 3, 1, 9, 30, tzinfo=UTC)) == "1965-03-01 09:30"


def test_the_first_and_last_times_can_be_shown_everywhere(monkeypatch):
    try:
        for zone in ("America/Los_Angeles", "Pacific/Auckland"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            for moment in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)):
                assert abs(here(moment).replace(tzinfo=None) - moment.replace(tzinfo=None)).days <= 1
    finally:
        monkeypatch.undo()
        time.tzset()


def test_local_times_that_windows_cannot_convert_are_left_aside(monkeypatch):
    monkeypatch.setattr(episodes, "datetime", OnWindows)
    assert episodes._time("1965-03-01T09:30:00", 0) == datetime(1970, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(wire, "parsedate_to_datetime", lambda _: OnWindows(1965, 3, 1))
    assert wire._retry_after_s({"retry-after": "Mon, 01 Mar 1965 09:30:00 -0000"}) is None


# ── pipes and interrupts ─────────────────────────────────────────────────────────────────────────


def test_a_reader_that_leaves_is_known_by_another_error_on_windows():
    invalid, full = OSError(errno.EINVAL, ""), OSError(errno.ENOSPC, "")
    assert is_closed_pipe(BrokenPipeError(), "linux") and is_closed_pipe(invalid, "win32")
    assert not any((is_closed_pipe(invalid, "linux"), is_closed_pipe(full, "win32"), is_closed_pipe(full, "linux")))


def test_a_sync_call_that_looks_up_now_and_then_still_waits_and_tells_its_own_timeouts_apart(monkeypatch):
    monkeypatch.setattr(sync, "HEARS_AFTER_S", 0.01)

    async def late():
        await asyncio.sleep(0.05)
        return "done"

    async def too_late():
        await asyncio.sleep(0.05)
        raise TimeoutError("the model did not answer")

    loop = sync._Loop()
    try:
        assert loop.run("late", late()) == "done"
        with pytest.raises(TimeoutError, match="did not answer"):
            loop.run("too_late", too_late())
    finally:
        loop.stop()


def test_a_sync_call_hears_an_interrupt_while_it_waits(monkeypatch):
    heard = []

    class Waiting(concurrent.futures.Future):
        """Waits as on Windows: an interrupt is heard once the wait is over."""

        def result(self, timeout=None):
            heard.append(timeout)
            raise KeyboardInterrupt if len(heard) == 3 else TimeoutError

    monkeypatch.setattr(sync, "HEARS_AFTER_S", 0.01)
    with pytest.raises(KeyboardInterrupt):
        sync._result(Waiting())
    assert heard == [0.01] * 3


# ── event loops and processes ────────────────────────────────────────────────────────────────────


def test_commands_with_postgresql_run_on_a_loop_that_its_driver_can_use():
    for urls in (["postgresql://localhost/app"], ["memory://", "postgres://localhost/app"]):
        assert loop_for(urls) is asyncio.SelectorEventLoop
    assert loop_for(["sqlite:///postgresql.db", "redis://localhost", Path("notes.db")]) is None


def test_a_command_without_a_url_chooses_by_the_settings(monkeypatch):
    monkeypatch.setenv("RECOLLECT_URL", "postgresql://localhost/app")
    assert (loop_of(None), loop_of("sqlite:///notes.db")) == (asyncio.SelectorEventLoop, None)
    monkeypatch.setenv("RECOLLECT_PORT", "not a port")
    assert loop_of(None) is None  # the command itself says what is wrong


def test_postgresql_says_which_loop_it_needs():
    class ProactorEventLoop(asyncio.SelectorEventLoop):
        """The usual one on Windows, by name."""

    with (
        asyncio.Runner(loop_factory=ProactorEventLoop) as runner,
        pytest.raises(Unavailable, match="SelectorEventLoop"),
    ):
        runner.run(open_store("postgresql://127.0.0.1:1/app"))


def test_several_server_processes_are_refused_on_windows(monkeypatch):
    monkeypatch.setattr(processes.sys, "platform", "win32")
    with pytest.raises(ValidationError, match="on Windows a server is one process"):
        processes.serve_with("memory://", Settings(workers=2), "127.0.0.1", 0, told=print)


# ── what lies in a file with a name ──────────────────────────────────────────────────────────────


def test_an_index_laid_aside_in_a_file_with_a_name_is_read_back_only_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(aside.tempfile, "TemporaryFile", aside.tempfile.NamedTemporaryFile)
    kept = Aside(tmp_path, bytes_max=1 << 20)
    assert kept.put("ann", {"tide": "table"}) and kept.put("ben", {"tea": "pot"})
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"tide", b"ride"))
    assert (kept.get("ann"), kept.get("ben")) == (None, {"tea": "pot"})
    kept.close()
    assert list(tmp_path.iterdir()) == []


# ── files from Windows ───────────────────────────────────────────────────────────────────────────


def test_lines_from_windows_are_read_with_their_mark_and_their_ends(recollect, lines):
    file = lines(b'\xef\xbb\xbf{"content": "The tide table is in the drawer."}\r\n{"content": "So is the key."}\r\n')
    done = recollect("import", file, "--json")
    assert (done.code, done.json["new"]) == (0, 2)


def test_a_mark_further_down_is_refused_as_what_it_is(recollect, lines):
    done = recollect("import", lines(b'{"content": "a"}\n\xef\xbb\xbf{"content": "b"}\n'), "--json")
    assert (done.code, done.json["new"], done.json["problems"][0]["line"]) == (2, 1, 2)
