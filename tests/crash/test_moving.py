"""Memories moved from one store to another all arrive: the same counts, checksums and answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recollect.testing.moving import Moved, move
from recollect.testing.stores import ON_SERVERS, fresh_url


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ON_SERVERS])
async def test_memories_move_completely_from_a_file_to_a_server(kind):
    with fresh_url("sqlite") as source, fresh_url(kind) as target:
        moved = await move(source, target, 600, users=20)
    assert moved.is_whole, str(moved)
    assert (moved.records, moved.partitions) == (600, 20)


def test_a_move_that_lost_something_is_not_reported_as_complete():
    whole = Moved(10, 10, 2, 0, "aa", "aa", 20, 1.0)
    assert whole.is_whole
    for wrong in ({"copied": 9}, {"not_verified": 1}, {"target_checksum": "bb"}, {"same_answers": 19}):
        assert not replace(whole, **wrong).is_whole
