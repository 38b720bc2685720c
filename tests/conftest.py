"""Fixtures that every test may use: a clock set by hand, and memories on each store that needs no server."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from recollect import Memory
from recollect.server.heaps import NEW_OBJECTS
from recollect.testing.fakes import HashingEmbedder, ManualClock

settings.register_profile(
    "recollect", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("recollect")

# Without this, the asserts of the scenes in that module fail without saying what they compared.
pytest.register_assert_rewrite("recollect.testing.odd_inputs")

OpenMemory = Callable[..., Awaitable[Memory]]

MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_MIN_BYTES = 4 << 30


def _keep_files_in_memory() -> None:
    """Put the files of the tests, and of the servers they start, on a disk in memory, if there is a large one.

    Everything stored is synced to the disk, and on a real one the tests would mostly wait for that. What they prove
    stays the same: a killed process loses nothing that it wrote to either disk. `TMPDIR` names another place.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY_DISK, os.W_OK):
        return
    if shutil.disk_usage(MEMORY_DISK).free < MEMORY_DISK_MIN_BYTES:
        return
    if os.statvfs(MEMORY_DISK).f_flag & os.ST_NOEXEC:
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_DISK)


_keep_files_in_memory()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and later only in what they leave behind, as a server does.

    All that collecting creates stays to the end: ten thousand tests, and every module they import. To look through it
    takes half a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Send the tests of one group to one process, which starts their server once.

    xdist 3.8 appends a group to the id, which pytest 9.2 keeps elsewhere; if the id has it already, this does nothing.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        end = f"@{'_'.join(groups)}"
        if groups and not item.nodeid.endswith(end):
            item._id = type(item._id).parse(f"{item.nodeid}{end}")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that only `clock.advance(days=...)` moves."""
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store_name(request: pytest.FixtureRequest) -> str:
    """The kind of store a test runs on."""
    return request.param


@pytest.fixture
def store_url(store_name: str, tmp_path: Path) -> str:
    """The URL of an empty store of that kind."""
    return "memory://" if store_name == "memory" else f"sqlite:///{tmp_path}/recollect.db"


@pytest.fixture
async def open_memory(store_url: str, clock: ManualClock) -> AsyncIterator[OpenMemory]:
    """Open memories with the test's own settings; each is closed when the test ends."""
    async with AsyncExitStack() as stack:

        async def opened(url: Any = store_url, **changes: Any) -> Memory:
            given = {"clock": clock, "embedder": HashingEmbedder(), "worker": False} | changes
            return await stack.enter_async_context(Memory.open(url, **given))

        yield opened


@pytest.fixture
async def memory(open_memory: OpenMemory) -> Memory:
    """An empty memory whose jobs run when the test says `await memory.work()`."""
    return await open_memory()
