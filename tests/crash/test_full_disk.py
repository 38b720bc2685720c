"""The disk is full, or fails: calls say so at once, reads continue, and nothing acknowledged is lost."""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect import Memory
from recollect.errors import Unavailable
from recollect.testing.drills import living_rows, settle, unfinished_jobs
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.faults import FailingDisk, ended, start
from recollect.testing.scenes import REPEATABLE, SCENES, is_whole, opened, play, problems_of, set_stage, state_of

DISK_BYTES = 3 * 1024 * 1024
reachable = pytest.mark.skipif(
    not FailingDisk.works(), reason="this Python has an SQLite of its own, whose writes are out of reach"
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if _mount(folder, f"size={DISK_BYTES}") != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def _mount(folder: Path, options: str) -> int:
    if shutil.which("mount") is None:
        return 1
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode


async def fill_and_go_on(path: Path, grow: Callable[[], object]) -> None:
    """Write until the disk is full, keep trying, get room, continue; then check that everything is there."""
    kept: list[str] = []
    async with Memory.open(path, embedder=HashingEmbedder(), busy_timeout_s=2) as memory:
        chat = memory.user("ann").session("chat")

        async def told(number: int, size: int = 20_000) -> bool:
            begun = time.monotonic()
            try:
                pair = await chat.add_interaction(f"{number} " + "word " * (size // 5), f"{number} yes")
            except Unavailable:
                return False
            finally:
                assert time.monotonic() - begun < 20
            kept.extend(message.id for message in pair)
            return True

        number = 0
        while await told(number):
            number += 1
            assert number < 1_000, "the disk never became full"
        refused = sum([not await told(1_000 + turn) for turn in range(100)])
        assert refused > 50
        held = (await chat.messages(limit=1_000))[0]
        assert [message.id for message in held] == kept, "reads go on, and nothing refused is there"
        grow()
        assert await told(2_000), "the first write after there is room"
        assert await told(2_001, size=100)
    opening_s = await settle(path)
    rows = {row.id: row for row in living_rows(path)}
    lost = [id for id in kept if id not in rows]
    half = [id for id in kept if id in rows and not rows[id].embedded] + unfinished_jobs(path)
    phantom = [row.id for row in rows.values() if row.layer == "conversation" and row.id not in kept]
    print(f"{len(kept)} kept, {refused} of 100 refused: lost {len(lost)}  half {len(half)}  phantom {len(phantom)}")
    assert (lost, half, phantom) == ([], [], [])
    assert problems_of(path) == []
    assert opening_s < 2


async def test_a_full_disk_refuses_at_once_and_loses_nothing(small_disk):
    await fill_and_go_on(small_disk / "memories.db", lambda: _mount(small_disk, f"remount,size={DISK_BYTES * 20}"))


async def fill_within_a_limit(path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, hard))
    await fill_and_go_on(path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


def test_a_limit_on_the_size_of_files_refuses_at_once_and_loses_nothing(tmp_path):
    assert ended(start(fill_within_a_limit, tmp_path / "memories.db")) == 0


# ── a disk that fails at any one write ───────────────────────────────────────────────────────────


async def play_through(path: Path, scene: str, fault: str, at: int) -> None:
    """Make one call on a disk whose n-th write fails; then the disk recovers, and the same memory continues."""
    async with opened(path) as memory:
        disk = FailingDisk(at, fault, lasting=fault == "ENOSPC")
        refused = False
        try:
            await play(memory, scene)
        except Unavailable:
            refused = True
        met = disk.writes >= at
        disk.remove()
        assert met or not refused
        await memory.user("ann").session("chat").messages()
        await memory.user("bob").session("chat").add_message("user", "Does it still work?")
        if refused and scene in REPEATABLE:
            await play(memory, scene)
    raise SystemExit(0 if not met else 3 if refused else 4)


@reachable
@pytest.mark.parametrize("fault", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_failed_write_is_refused_entirely_and_the_memory_carries_on(tmp_path, scene, fault):
    stage = tmp_path / "stage.db"
    async with opened(stage) as memory:
        await set_stage(memory, "ann")
    before = state_of(stage)
    done = Path(shutil.copy(stage, tmp_path / "done.db"))
    async with opened(done) as memory:
        await play(memory, scene)
    after = state_of(done)
    for at in range(1, 200, 3 if fault == "EIO" else 5):
        path = Path(shutil.copy(stage, tmp_path / f"{at}.db"))
        code = ended(start(play_through, path, scene, fault, at))
        assert code in (0, 3, 4), f"at write {at}"
        assert problems_of(path) == []
        state = state_of(path)
        if code == 0:
            assert state == after
            break
        refused = code == 3 and scene not in REPEATABLE
        assert is_whole(state, after) or (refused and state == before), f"at write {at}"
