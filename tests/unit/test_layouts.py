"""Where entities are placed in a picture: the same every time, with names that do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.policies.layouts import apart, layout


@pytest.mark.parametrize("count", [0, 1, 2, 7, 30])
def test_boxes_that_have_room_do_not_overlap(count):
    places = layout(count, [(0, other) for other in range(1, count)])
    widths = np.full(count, 0.14)
    moved = apart(places, widths, 0.08, low=0.05, high=0.95)
    assert ((moved[:, 0] >= 0.06) & (moved[:, 0] <= 0.94)).all()
    across, along = (np.abs(moved[:, None, axis] - moved[None, :, axis]) for axis in (0, 1))
    over = (across < 0.13) & (along < 0.07) & ~np.eye(count, dtype=bool)
    assert not over.any()


def test_two_at_the_same_place_move_apart():
    moved = apart(np.full((2, 2), 0.5), np.array([0.2, 0.2]), 0.1, low=0.0, high=1.0)
    assert abs(moved[0, 0] - moved[1, 0]) > 0.19 or abs(moved[0, 1] - moved[1, 1]) > 0.09


def test_the_same_graph_gives_the_same_picture():
    edges = [(0, 1), (1, 2), (0, 3)]
    assert np.array_equal(layout(4, edges), layout(4, edges))
