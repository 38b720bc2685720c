"""Seeds of the drills: printed when a drill fails, and set by `RECOLLECT_SEED`."""

from __future__ import annotations

import os
import random

import pytest


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("RECOLLECT_SEED", random.randrange(1_000_000)))
    print(f"RECOLLECT_SEED={chosen}")
    return chosen
