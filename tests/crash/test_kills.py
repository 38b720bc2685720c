"""Processes die without warning, anywhere: what was acknowledged stays, and nothing is half done."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from recollect import Memory
from recollect.testing.drills import Findings, Journal, Operation, check, kill_writers, perform, settle
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import KILLED, FailingDisk, die, ended, start
from recollect.testing.scenes import (
    REPEATABLE,
    SCENES,
    is_whole,
    opened,
    play,
    play_until,
    problems_of,
    set_stage,
    state_of,
)

KILLS = int(os.environ.get("RECOLLECT_KILLS", "50"))
LARGE_ROWS = 100_000
reachable = pytest.mark.skipif(
    not FailingDisk.works(), reason="this Python has an SQLite of its own, whose writes are out of reach"
)


@pytest.mark.timeout(300 + 4 * KILLS)
def test_writers_killed_again_and_again_lose_nothing_and_leave_nothing_half_done(tmp_path, seed):
    outcome = kill_writers(tmp_path / "drill.db", KILLS, seed)
    print(outcome)
    assert outcome.acknowledged > KILLS
    assert outcome.reopened_s < 2
    assert not outcome.findings.any, outcome


async def write_much_and_die(path: Path) -> None:
    """Write a hundred thousand messages, the last of them only in the log."""
    memory = await opened(path).start()
    for batch in range(LARGE_ROWS // 90 + 1):
        chat = memory.user("ann").session(f"chat{batch % 50}")
        await chat.add_messages([{"role": "user", "content": f"Message {n} of batch {batch}."} for n in range(90)])
    die()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_large_file_whose_writer_was_killed_opens_within_two_seconds(tmp_path):
    path = tmp_path / "large.db"
    assert ended(start(write_much_and_die, path), 500) == KILLED
    begun = time.process_time()
    async with opened(path) as memory:
        await memory.user("ann").session("chat1").messages(limit=1)
        seconds = time.process_time() - begun
        assert sum((await memory.survey()).records.values()) >= LARGE_ROWS
    print(f"{LARGE_ROWS} rows: open and read after {seconds * 1000:.0f} ms of CPU")
    assert seconds < 2


# ── at every step ────────────────────────────────────────────────────────────────────────────────


def kill_at_steps(folder: Path, scene: str, fault: str) -> int:
    """Kill one call at each of its steps and check that it is complete or absent. Returns the number of steps."""
    stage, done = folder / "stage.db", folder / "done.db"
    asyncio.run(_prepare(stage))
    shutil.copy(stage, done)
    asyncio.run(_play(done, scene))
    before, after = state_of(stage), state_of(done)
    for at in range(1, 500):
        path = Path(shutil.copy(stage, folder / f"{fault} {at}.db"))
        code = ended(start(play_until, path, scene, fault, at))
        assert code in (0, KILLED), f"at {fault} {at}"
        assert problems_of(path) == []
        state = state_of(path)
        if code == 0:
            assert state == after
            return at - 1
        assert state == before or is_whole(state, after), f"half done at {fault} {at}"
        if scene in REPEATABLE:
            asyncio.run(_play(path, scene))
            assert is_whole(state_of(path), after), f"sent again after {fault} {at}"
    raise AssertionError("it never came to its end")


async def _prepare(path: Path) -> None:
    async with opened(path) as memory:
        await set_stage(memory, "ann")


async def _play(path: Path, scene: str) -> None:
    async with opened(path) as memory:
        await play(memory, scene)


@pytest.mark.parametrize("scene", SCENES)
def test_a_call_killed_before_or_after_any_verb_of_the_store_is_complete_or_absent(tmp_path, scene):
    assert kill_at_steps(tmp_path, scene, "verb") >= 4


@reachable
@pytest.mark.parametrize("fault", ["die", "tear"])
@pytest.mark.parametrize("scene", SCENES)
def test_a_call_killed_before_or_during_any_write_to_the_disk_is_complete_or_absent(tmp_path, scene, fault):
    assert kill_at_steps(tmp_path, scene, fault) >= 12


# ── the checker ──────────────────────────────────────────────────────────────────────────────────


SENT = [
    Operation("L0W0N0", 0, "message", "ann", ("L0W0N0P0",)),
    Operation("L0W0N1", 0, "batch", "ann", ("L0W0N1P0", "L0W0N1P1", "L0W0N1P2")),
    Operation("L0W0N2", 0, "memory", "ann", ("L0W0N2P0",)),
    Operation("L0W0N3", 0, "update", "ann", ("L0W0N3P0",), "L0W0N2"),
    Operation("L0W0N4", 0, "message", "ann", ("L0W0N4P0",)),
    Operation("L0W0N5", 0, "forget", "ann", (), "L0W0N4"),
]
# What was learned from a message is a phantom once the message is gone.
DAMAGE = {
    "delete from records where id = 'L0W0N0'": "lost phantom",
    "delete from records where payload like '%L0W0N1P1%'": "phantom half",
    "delete from records where layer = 'past'": "half",
    "update records set dropped = 1 where id = 'L0W0N2'": "lost half",
    "update records set vector = null, model = null where id = 'L0W0N0'": "half",
    "insert into jobs values (1, 'enrich:x', 'enrich', '[]', 9000000000000, 1)": "half",
    "update records set payload = replace(payload, 'L0W0N0P0', 'L9W9N9P9') where id = 'L0W0N0'": "lost phantom",
    "insert into records select row + 100, part, id || 'b', epoch, revision, born, version, layer, session, dropped,"
    " dead_at, digest, payload, model, vector, null from records where id = 'L0W0N0'": "duplicate",
    "update records set part = 1 where id = 'L0W0N0'": "phantom half leak",
    "update records set born = born + 9999 where id = 'L0W0N0'": "disorder",
    "update records set payload = replace(payload, ' says ', ' L0W0N4P0 ') where id = 'L0W0N0'": "phantom",
}


@pytest.fixture
async def told(tmp_path: Path) -> tuple[Path, Journal]:
    """A file, and the journal of what was written to it."""
    path = tmp_path / "told.db"
    journal = Journal()
    async with Memory.open(path, embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("bob").session("chat").add_message("user", "L0W1N0P0 of someone else, with many words")
        for operation in SENT:
            journal.take(operation)
            await perform(memory, operation)
            journal.take(operation.id)
    journal.take(Operation("L0W1N0", 1, "message", "bob", ("L0W1N0P0",)))
    await settle(path)
    return path, journal


@pytest.mark.parametrize(("damage", "kinds"), DAMAGE.items(), ids=DAMAGE.values())
async def test_the_checker_detects_damage_and_names_it(told, damage, kinds):
    path, journal = told
    assert check(path, journal) == Findings()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(damage)
    findings = check(path, journal)
    assert [name for name in vars(findings) if getattr(findings, name)] == kinds.split()
