"""Where the entities of a graph stand in a picture: the same graph, the same picture.

They start on a circle, in their order, and are moved apart and together by springs for a fixed number
of steps, without chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 200
"""Moves until nothing moves visibly any more."""


def layout(count: int, edges: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Places between 0 and 1 for so many nodes: all push each other away, edges pull together."""
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
        # A little pull to the middle keeps what hangs on nothing in the picture.
        force = (ideal**2 / far**2 - pulls * far / ideal)[:, :, None] * apart
        move = force.sum(axis=1) - places * 2.0
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places = places + move / length * np.minimum(length, 0.2 * (1 - step / STEPS))
    low, high = places.min(axis=0), places.max(axis=0)
    spread = np.where(high - low > 1e-6, high - low, 1.0)
    return np.asarray((places - low) / spread, np.float64)
