"""Vectors of an index: however they are held, they are what was stored, and are compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.records import Vector
from recollect.vectors import BLOCK_ROWS, CODES_FROM_ROWS, WIDE_ROWS, Vectors, widened

DIMENSIONS = 8


def stored(count: int) -> list[Vector]:
    numbers = np.random.default_rng(7).normal(size=(count, DIMENSIONS)).astype("<f2")
    return [Vector("m", row.tobytes()) for row in numbers]


def test_every_finite_number_is_widened_exactly():
    every = np.arange(1 << 16, dtype="<u2").view("<f2")
    finite = every[np.isfinite(every)]
    assert widened(finite).tobytes() == finite.astype(np.float32).tobytes()


@pytest.mark.parametrize("count", [1, BLOCK_ROWS, BLOCK_ROWS + 1, WIDE_ROWS - 1, WIDE_ROWS, WIDE_ROWS + 200])
@pytest.mark.parametrize("portion", [7, 5_000])
def test_a_vector_comes_back_as_stored_and_is_compared_by_its_numbers(count, portion):
    vectors, each = Vectors(0), stored(count)
    for start in range(0, count, portion):
        vectors.put(range(start, min(start + portion, count)), each[start : start + portion])
        vectors.matrix(start + 1)
    vectors.put([0], [each[-1]])
    each[0] = each[-1]
    for _ in range(2):
        assert [vectors.data_of(row) for row in range(count)] == [vector.data for vector in each]
        wide = np.frombuffer(b"".join(vector.data for vector in each), "<f2").reshape(count, -1).astype(np.float32)
        assert (vectors.matrix(count) == wide).all()
        vectors.rest()


def test_spare_room_is_given_back_after_the_last_page():
    pages, page = 7, stored(WIDE_ROWS)
    read = Vectors(DIMENSIONS)
    for number in range(pages):
        read.put(range(number * len(page), (number + 1) * len(page)), page)
        read.make_room((number + 1) * len(page), more=number < pages - 1)
    rows = pages * len(page)
    assert read.nbytes <= 1.2 * rows * DIMENSIONS * 4
    assert [read.data_of(row) for row in range(rows)] == [vector.data for vector in page] * pages


@pytest.mark.parametrize("rows", [[3, 4, 5], [9, 2, 30], [7, 6], [1, 1 + BLOCK_ROWS], list(range(5, 3 * BLOCK_ROWS))])
def test_rows_are_written_where_they_belong_in_any_order(rows):
    vectors, before, after = Vectors(DIMENSIONS), stored(40), stored(80)[40:]
    vectors.put(range(40), before)
    vectors.put(rows, [after[row] for row in rows])
    expected = [(after if row in rows else before)[row].data for row in range(40)]
    assert [vectors.data_of(row) for row in range(40)] == expected


def test_a_vector_of_another_size_counts_as_none():
    vectors = Vectors(DIMENSIONS)
    vectors.put([0, 1], [Vector("m", b"12"), None])
    assert not vectors.matrix(2).any()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [9, WIDE_ROWS + 1, CODES_FROM_ROWS + 1])
def test_a_damaged_vector_counts_as_none_and_changes_nothing_for_others(count, number):
    vectors, each = Vectors(DIMENSIONS), stored(count)
    broken = np.frombuffer(each[3].data, "<f2").copy()
    broken[5] = number
    query = np.frombuffer(each[7].data, "<f2").astype(np.float32)
    alive = np.ones(count, np.bool_)
    assert vectors.put(range(count), [None if row == 3 else one for row, one in enumerate(each)]) == []
    before = vectors.scores(query, count, alive).tolist()
    assert vectors.put([2, 3], [each[2], Vector("m", broken.tobytes())]) == [3]
    assert vectors.scores(query, count, alive).tolist() == before
    assert not vectors.matrix(count)[3].any()
    anew = Vectors(DIMENSIONS)
    anew.put(range(count), [Vector("m", broken.tobytes()) if row == 3 else one for row, one in enumerate(each)])
    assert anew.scores(query, count, alive).tolist() == before


@pytest.mark.parametrize("larger", [1, 40])
def test_many_vectors_added_after_the_first_query_compare_like_those_already_there(larger):
    count = CODES_FROM_ROWS + 1
    wide = np.random.default_rng(7).normal(size=(count, DIMENSIONS)).astype("<f2")
    wide[count // 2 :] *= larger
    each, alive = [Vector("m", row.tobytes()) for row in wide], np.ones(count, np.bool_)
    query = wide[7].astype(np.float32)
    late, there = Vectors(DIMENSIONS), Vectors(DIMENSIONS)
    late.put(range(count), [None] * count)
    assert not late.encode(count, count)
    assert not late.scores(query, count, alive).any()
    for rows in (range(count // 2), range(count // 2, count)):
        late.put(rows, [each[row] for row in rows])
        while late.encode(count, 4_000):
            pass
    there.put(range(count), each)
    exactly = there.scores(query, count, alive)
    assert np.abs(late.scores(query, count, alive) - exactly).max() < 0.02 * exactly.max()


def test_where_codes_cannot_be_compared_every_row_is_compared_exactly(monkeypatch):
    monkeypatch.setattr("recollect.vectors.HAS_CODES", False)
    count = CODES_FROM_ROWS + 1
    vectors, each = Vectors(DIMENSIONS), stored(count)
    vectors.put(range(count), each)
    query = np.frombuffer(each[7].data, "<f2").astype(np.float32)
    assert not vectors.encode(count, count)
    exactly = np.vecdot(vectors.matrix(count), query)
    assert np.array_equal(vectors.scores(query, count, np.ones(count, np.bool_)), exactly)
