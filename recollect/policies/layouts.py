"""Where the entities of a graph are drawn in a picture: the same graph always gives the same picture.

They start on a circle, in their order, and are pushed apart and pulled together by springs for a fixed
number of steps, without randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 200
"""Steps until nothing moves visibly any more."""


ROUNDS = 120
"""Rounds until boxes that can be separated are."""


def layout(count: int, edges: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Positions between 0 and 1 for `count` nodes: all push each other away, edges pull together."""
    angles = np.arange(count) * (2 * np.pi / max(count, 1))
    places: NDArray[np.float64] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if count < 2:
        return np.full((count, 2), 0.5)
    pulls = np.zeros((count, count))
    for a, b in edges:
        pulls[a, b] = pulls[b, a] = 1.0
    ideal = 2 / count**0.5
    for step in range(STEPS):
        apart = places[:, None, :] - places[None, :, :]
        far = np.maximum(np.linalg.norm(apart, axis=2), 0.01)
        # A slight pull to the middle keeps unconnected nodes in the picture.
        force = (ideal**2 / far**2 - pulls * far / ideal)[:, :, None] * apart
        move = force.sum(axis=1) - places * 2.0
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places = places + move / length * np.minimum(length, 0.2 * (1 - step / STEPS))
    low, high = places.min(axis=0), places.max(axis=0)
    spread = np.where(high - low > 1e-6, high - low, 1.0)
    return np.asarray((places - low) / spread, np.float64)


def apart(
    places: NDArray[np.float64], widths: NDArray[np.float64], height: float, *, low: float, high: float
) -> NDArray[np.float64]:
    """The positions, moved until boxes of these widths and this height hardly overlap, where there is room.

    Boxes stay inside from left to right, and their centres between `low` and `high` vertically.
    """
    least = np.minimum(widths / 2, 0.5)
    wide = (widths[:, None] + widths[None, :]) / 2
    itself = np.eye(len(places), dtype=bool)
    # Two at the very same position move apart in their order.
    order = np.sign(np.arange(len(places))[:, None] - np.arange(len(places))[None, :])
    level = np.ones(len(places))
    edges = np.stack([least, level * low], axis=1), np.stack([1 - least, level * high], axis=1)
    for _ in range(ROUNDS):
        places = np.clip(places, *edges)
        across, along = (places[:, None, axis] - places[None, :, axis] for axis in (0, 1))
        over_x, over_y = wide - np.abs(across), height - np.abs(along)
        over = (over_x > 1e-4) & (over_y > 1e-4) & ~itself
        if not over.any():
            break
        sideways = over & (over_x < over_y)
        side, lift = (np.where(gap == 0, order, np.sign(gap)) for gap in (across, along))
        places[:, 0] += np.where(sideways, over_x * side, 0.0).sum(axis=1) / 3
        places[:, 1] += np.where(over & ~sideways, over_y * lift, 0.0).sum(axis=1) / 3
    return np.asarray(np.clip(places, *edges), np.float64)
