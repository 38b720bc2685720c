"""Records of an index: packed or not, they stay the same."""

from __future__ import annotations

import pytest

from recollect import shelf
from recollect.records import Record, Scope, Source, Vector
from recollect.shelf import Shelf

SCOPE = Scope("acme", "ann", "tutor", "monday")
RECORDS = (
    Record("m1", "conversation", SCOPE, "She said “hi” \U0001f600.", {"role": "user"}, {"n": [1, {"x": None}]}),
    Record("m2", "fact", SCOPE, "", {}, {}, 0.1 + 0.2, 0.3, 2**50, 7, 8, 9, 10, None, "untrusted", None, 5, (4, 95)),
    Record("m3", "fact", Scope("acme", "ann"), "b", source=Source("m1", None, (3, 9), "user", "rules")),
    Record("m4", "long_term", SCOPE, "c", vector=Vector("other", b"\x00\xff")),
    Record("m5", "long_term", SCOPE, "d", vector=Vector("mine", b"row 4")),
)


@pytest.fixture
def shelved():
    held = Shelf("mine", lambda row: f"row {row}".encode())
    held.extend([record.id for record in RECORDS])
    held.put(range(len(RECORDS)), RECORDS, [record.id == "m5" for record in RECORDS])
    return held


def test_a_record_is_the_same_after_packing(shelved):
    shelved.clear()
    assert [shelved[row] for row in shelved] == [*RECORDS]
    assert shelved[0] is shelved[0]


def test_a_new_record_is_kept_as_it_came_until_it_is_packed(shelved):
    assert all(shelved[row] is record for row, record in enumerate(RECORDS))
    shelved.clear()
    later = RECORDS[1].with_(content="later")
    shelved.put([1], [later], [False])
    assert shelved[1] is later
    shelved.clear()
    assert [shelved[row] for row in shelved] == [RECORDS[0], later, *RECORDS[2:]]


def test_unpacked_records_count_while_they_are_unpacked(shelved):
    new = shelved.nbytes
    shelved.put([0], [RECORDS[0]], [False])
    assert shelved.nbytes == new
    shelved.clear()
    packed = shelved.nbytes
    assert new > packed + len(RECORDS) * shelf.UNPACKED_BYTES / 2
    assert [shelved[row] for row in shelved] == [*RECORDS]
    assert shelved.nbytes > packed + len(RECORDS) * shelf.UNPACKED_BYTES
    shelved.clear()
    assert shelved.nbytes == packed


def test_when_many_are_unpacked_those_with_a_packed_copy_are_dropped(shelved, monkeypatch):
    monkeypatch.setattr(shelf, "UNPACKED_MAX", len(RECORDS) - 2)
    shelved.trim()
    assert shelved.unpacked == len(RECORDS), "what is new lies nowhere else"
    shelved.clear()
    packed = shelved.nbytes
    assert [shelved[row] for row in shelved] == [*RECORDS]
    shelved.put([0], [RECORDS[0]], [False])
    shelved.trim()
    assert (shelved.unpacked, len(shelved)) == (1, len(RECORDS))
    shelved.clear()
    assert shelved.nbytes == packed


def test_a_vector_in_the_matrix_is_not_held_twice(shelved):
    shelved.clear()
    before = shelved.nbytes
    shelved.put([4], [RECORDS[4]], [False])
    shelved.clear()
    assert shelved.nbytes > before
