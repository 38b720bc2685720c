"""Several processes behind one port and on one store, and settings from every source."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from server_stage import children, served_by_two, until

from recollect.errors import ValidationError
from recollect.interfaces.serving import _settings
from recollect.testing.serving import STOP_S

POST = "/api/users/ann/sessions/s/messages"


@pytest.fixture
def served(tmp_path):
    with served_by_two(tmp_path) as found:
        yield found


def say(address: str, count: int) -> Counter[int]:
    def one(n: int) -> int:
        try:
            return httpx.post(address + POST, json={"role": "user", "content": f"message {n}"}, timeout=60).status_code
        except httpx.TransportError:
            return 0

    with ThreadPoolExecutor(8) as threads:
        return Counter(threads.map(one, range(count)))


def test_processes_share_the_port_the_store_and_the_metrics_and_stop_together(served, tmp_path):
    address, running = served
    crew = until(lambda: (found := children(running.pid)) and len(found) == 2 and found)
    assert say(address, 60) == {201: 60}
    until(lambda: re.search(r"^recollect_adds_total 60$", httpx.get(f"{address}/metrics").text, re.M))
    running.send_signal(signal.SIGTERM)
    assert running.wait(STOP_S) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in crew)
    with sqlite3.connect(tmp_path / "kept.db") as file:
        assert file.execute("select count(*) from records where layer = 'conversation'").fetchone() == (60,)


def test_a_process_that_dies_is_replaced_and_the_others_carry_on(served):
    address, running = served
    first, second = until(lambda: (found := children(running.pid)) and len(found) == 2 and found)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(now := children(running.pid)) == 2 and first not in now)
    assert second in children(running.pid)
    until(lambda: say(address, 20) == {201: 20})


def test_a_process_that_cannot_start_says_why_in_one_line_and_after_some_tries_the_server_ends(served, tmp_path):
    _, running = served
    crew = until(lambda: (found := children(running.pid)) and len(found) == 2 and found)
    with sqlite3.connect(tmp_path / "kept.db") as file:
        file.execute("pragma user_version = 99")
    for pid in crew:
        os.kill(pid, signal.SIGKILL)
    until(lambda: running.poll() is not None, 200.0)
    told = (tmp_path / "requests.log").read_text()
    assert running.returncode == 4 and "processes end as soon as they start" in told
    assert "cannot serve: store: the file has schema version 99" in told and "Traceback" not in told


def test_processes_do_not_outlive_the_one_that_started_them(served):
    _, running = served
    crew = until(lambda: (found := children(running.pid)) and len(found) == 2 and found)
    running.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in crew))


def test_a_store_that_cannot_be_shared_is_refused(recollect):
    ran = recollect("serve", "--workers", "2", "--port", "0", at="memory://")
    assert ran.code == 2 and "cannot share" in ran.err


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def test_flags_override_the_environment_which_overrides_the_file(tmp_path, monkeypatch):
    (tmp_path / "recollect.toml").write_text("port = 1001\nworkers = 2\nrequests_per_day = 5\nlease_s = 7\n")
    monkeypatch.setenv("RECOLLECT_PORT", "1002")
    monkeypatch.setenv("RECOLLECT_WORKERS", "3")
    chosen = _settings(["port=1003"], None)
    assert (chosen.port, chosen.workers, chosen.requests_per_day, chosen.lease_s) == (1003, 3, 5, 7)
    assert _settings([], 4).workers == 4


@pytest.mark.parametrize(
    ("given", "field"), [("port", "set"), ("nonsense=1", "nonsense"), ("port=x", "port"), ("workers=0", "workers")]
)
def test_an_invalid_flag_is_refused(given, field):
    with pytest.raises(ValidationError) as refused:
        _settings([given], None)
    assert refused.value.field == field


# ── Without a terminal ───────────────────────────────────────────────────────────────────────────


def test_it_talks_to_itself_and_leaves_nothing_behind(recollect, tmp_path):
    ran = recollect("serve", "--play", "--port", "0", at=None)
    assert ran.code == 0 and "Admiral. Earlier today" in ran.out and "city: Porto" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_a_server_has_rehearsed_before_it_opens():
    code = """
import asyncio, sys
from recollect import Memory, providers
from recollect.server.rehearsal import rehearse

async def main():
    async with Memory.open("memory://", worker=False) as memory:
        assert "recollect.enrich.rules" not in sys.modules
        await rehearse(memory, "en")
        assert "recollect.enrich.rules" in sys.modules and providers._load_subwords.cache_info().currsize == 1
        assert await memory.users() == []

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
