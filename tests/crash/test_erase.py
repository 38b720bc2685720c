"""Erased data is gone from every file and never logged; the same words stored by many at once are one memory."""

from __future__ import annotations

import base64
import random
import zlib

import pytest

from recollect.testing.erasing import (
    WAYS,
    Outcome,
    add_twins,
    bytes_of,
    canaries,
    copies,
    counted,
    erase_user,
    forget_each,
)

CANARY = "xylocanarium"


async def test_a_canary_stored_in_every_way_is_nowhere_after_erasing(tmp_path, seed):
    outcome = await erase_user(tmp_path, seed)
    print(outcome)
    assert outcome.findings == []
    assert set(WAYS) < set(outcome.before)
    assert not any(outcome.after.values())


async def test_records_forgotten_one_by_one_are_nowhere_after_upkeep(tmp_path, seed):
    outcome = await forget_each(tmp_path, seed)
    print(outcome)
    assert outcome.findings == []
    assert not any(outcome.after.values())


@pytest.mark.parametrize("count", [2, 64])
async def test_identical_memories_added_at_the_same_time_are_one(tmp_path, count):
    assert await add_twins(tmp_path, count) == []


# ── the search ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "hidden",
    [
        CANARY.encode(),
        f"before {CANARY} after".encode("utf-16"),
        f"before {CANARY} after".encode("utf-16-be"),
        CANARY.encode().hex().encode(),
        CANARY.encode().hex().upper().encode(),
        *(base64.b64encode(b"." * skip + CANARY.encode() + b"." * 7) for skip in range(3)),
        b"noise" + zlib.compress(f"some text with a {CANARY} in it".encode()) + b"noise",
        b"x\x9cnot a stream" + zlib.compress(CANARY.encode(), 9),
    ],
)
def test_the_search_finds_a_copy_in_any_encoding(tmp_path, hidden):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"\x00\xff" + hidden)
    assert copies(bytes_of(tmp_path), CANARY) == 1


def test_the_search_finds_nothing_where_nothing_is(tmp_path, seed):
    (tmp_path / "file").write_bytes(b"x\x9c".join(word.encode() for word in WAYS))
    words = canaries(random.Random(seed))
    assert not any(counted(bytes_of(tmp_path), words).values())


def test_a_drill_fails_when_a_copy_is_left_was_logged_or_was_never_there():
    fine = Outcome("erase", before={"message": 2}, after={"message": 0}, logged={"message": 0})
    assert fine.findings == []
    assert Outcome("erase", before={"message": 2}, after={"message": 1}).findings == ["message: 1 copies left"]
    assert Outcome("erase", before={"message": 0}, after={"message": 0}).findings
    assert Outcome("erase", before={"message": 2}, logged={"message": 1}).findings
