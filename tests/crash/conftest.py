"""Seeds of the drills: printed where a drill fails, and set by `RECOLLECT_SEED`."""

from __future__ import annotations

import os
import random

import pytest

SEVERAL_COMMITS = "made in several commits today, so a kill between them leaves a part of it"
UNMET = {
    "forget by filter": SEVERAL_COMMITS,
    "delete": SEVERAL_COMMITS,
    "branch": SEVERAL_COMMITS,
    "test_a_cancelled_closing_closes_all_the_same": "cancelled while the worker ends, it never comes to the store",
    "test_after_a_jump_ahead_and_back_search_finds_what_still_lives": "the index lets go of what it saw expire",
}
"""Promises that are not kept yet, by scene or test, with the reason. One that is kept must leave this list."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        scene = item.callspec.params.get("scene", "") if hasattr(item, "callspec") else ""
        for name in {scene, getattr(item, "originalname", "")} & UNMET.keys():
            item.add_marker(pytest.mark.xfail(reason=UNMET[name], strict=True))


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("RECOLLECT_SEED", random.randrange(1_000_000)))
    print(f"RECOLLECT_SEED={chosen}")
    return chosen
