"""Bad and odd inputs end the same way on every store, and nobody sees another's data."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from recollect.testing.bad_inputs import CASES, Outcome
from recollect.testing.matrix import Result, differences, on_store, table
from recollect.testing.odd_inputs import SCENES, TELLING
from recollect.testing.stores import ON_SERVERS, fresh_url

QUICK = {name: SCENES[name] for name in TELLING}


@pytest.fixture(scope="module")
def model() -> Result:
    """What becomes of the inputs in memory."""
    return asyncio.run(on_store(lambda: fresh_url("memory"), QUICK))


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ON_SERVERS])
async def test_bad_and_odd_inputs_end_as_they_do_in_memory(model, kind):
    assert sum(len(outcome.answers) for outcome in model.values()) > len(CASES)
    assert differences(model, await on_store(lambda: fresh_url(kind), QUICK)) == []


def test_the_table_shows_where_a_store_differs():
    model = {"A1": Outcome("A1", {"empty": "ValidationError content"}), "A2": Outcome("A2", {"int": "as it should"})}
    lax = {"A1": Outcome("A1", {"empty": "nothing: it was taken"}, ("empty: nothing: it was taken",))}
    assert differences(model, model) == []
    assert len(differences(model, lax)) == 3
    told = table({"good": model, "lax": lax}, model).splitlines()
    assert [line.split() for line in told] == [
        ["case", "inputs", "good", "lax"], ["A1", "1", "ok", "2", "wrong"], ["A2", "1", "ok", "1", "wrong"],
        ["all", "2", "ok", "3", "wrong"],
    ]  # fmt: skip


def test_the_command_prints_the_matrix():
    command = [sys.executable, "-m", "recollect.testing.matrix", "sqlite"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.splitlines()[-1] == "The same outcome on every store."
    assert told.stdout.splitlines()[0].split() == ["case", "inputs", "sqlite"]
