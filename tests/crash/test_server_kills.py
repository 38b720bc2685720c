"""Servers and workers die without warning under load: what was acknowledged over HTTP stays, nothing is half done."""

from __future__ import annotations

import asyncio
import os

import pytest

from recollect.testing.server_kills import ACKNOWLEDGED_EACH, SERVER, WORKER, kill_servers

KILLS = int(os.environ.get("RECOLLECT_KILLS", "50"))


@pytest.mark.timeout(300 + 3 * KILLS)
@pytest.mark.parametrize(("victim", "kills"), [(SERVER, KILLS // 5), (WORKER, KILLS // 10)])
def test_what_a_killed_server_or_worker_acknowledged_is_there_once_and_complete(tmp_path, seed, victim, kills):
    outcome = asyncio.run(kill_servers(tmp_path / "drill.db", kills, seed, victim))
    print(outcome)
    assert outcome.kills >= kills and outcome.acknowledged > ACKNOWLEDGED_EACH * kills
    assert not outcome.findings.any, outcome
