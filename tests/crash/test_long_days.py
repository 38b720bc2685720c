"""Many calls, many memories, many users: nothing grows that should not, and limits hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from recollect.testing.masses import masses
from recollect.testing.soak import Look, Soaked, counted


@pytest.mark.timeout(600)
def test_after_thousands_of_mixed_calls_the_process_holds_no_more_than_before():
    command = [sys.executable, "-m", "recollect.testing.soak", "--operations", "3000", "--users", "60"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert told.returncode == 0 and told.stdout.endswith("Nothing grew.\n"), told.stdout + told.stderr


@pytest.mark.parametrize("grown", ["rss_mib", "files", "threads", "tasks", "log_mib", "p99_ms"])
def test_anything_that_grows_is_reported(grown):
    calm = {"rss_mib": 60.0, "files": 20, "threads": 5, "tasks": 3, "log_mib": 8.0, "p99_ms": 20.0}
    looks = [Look(calls=n, **calm) for n in range(10)]
    assert Soaked(looks).wrong(is_long=True) == []
    worse = Look(calls=10, **calm | {grown: calm[grown] * 10})
    assert len(Soaked([*looks, worse]).wrong(is_long=True)) == 1


def test_the_file_of_spilled_indexes_is_no_growth_but_a_second_one_is():
    files, spilled = ["/data/soak.db", "/data/soak.db-wal"], "/data/#17 (deleted)"
    assert counted([*files, spilled]) == counted(files)
    assert counted([*files, spilled, spilled]) == counted(files) + 1


@pytest.mark.timeout(600)
async def test_with_very_many_memories_or_users_limits_hold_and_lists_come_in_pages(store_url):
    assert await masses(store_url, 20_000, 2_000)
