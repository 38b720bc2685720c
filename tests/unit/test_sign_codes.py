"""Codes of vectors are compared bit by bit, whatever their size and however many there are."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.stores.sqlite_codes import STRIDE, distances_to, words_of


@pytest.mark.parametrize("code_bytes", [1, 7, 8, 13, 32, 48, 192])
def test_the_distance_of_two_codes_is_the_number_of_bits_in_which_they_differ(code_bytes: int) -> None:
    codes = np.random.default_rng(1).integers(0, 256, (300, code_bytes), dtype=np.uint8)
    codes[1] = ~codes[0]
    words = words_of(codes)
    found = distances_to(words[0], np.ascontiguousarray(words.T))
    assert found.tolist() == np.unpackbits(codes ^ codes[0], axis=1).sum(axis=1).tolist()
    assert (found[0], found[1]) == (0, 8 * code_bytes)


@pytest.mark.parametrize("count", [STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE + 7])
def test_no_code_is_left_out_where_there_are_many(count: int) -> None:
    words = np.random.default_rng(2).integers(0, 2**63, (2, count), dtype=np.uint64)
    found = distances_to(words[:, -1], words)
    assert np.array_equal(found, np.bitwise_count(words ^ words[:, -1:]).sum(axis=0))
