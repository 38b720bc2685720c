"""The power fails during writes: copies of the file and its log, taken at random instants, open whole and complete.

    python -m recollect.testing.power_cuts --copies 200

The writers of `drills.py` are paused while a copy is made, so that file and log are from one instant, as on a disk when
the power goes. Every copy is then opened, worked through and compared with what was acknowledged by then.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from recollect.testing.drills import Findings, Journal, Outcome, check, settle, start_life

PAUSE_S = (0.02, 0.4)
"""How long writers write between two instants."""

START_S = 60.0
"""How long writers may take to write something: a drill without results proves nothing."""


def cut_power(folder: Path, copies: int, seed: int) -> Outcome:
    """Copy the file while it is written, then check every copy. The first with something wrong ends the drill."""
    chance, journal, outcome = random.Random(seed), Journal(), Outcome(Findings())
    path = folder / "live.db"
    victim = start_life(path, journal, seed, 0, 0, 0)
    instants: list[tuple[Path, Journal]] = []
    try:
        until = time.monotonic() + START_S
        while len(instants) < copies or (len(journal.done) < copies and time.monotonic() < until):
            _take(victim.pipe, journal, chance.uniform(*PAUSE_S))
            if not path.exists() and time.monotonic() < until:
                continue  # a slow machine: there is nothing to lose yet
            os.kill(victim.process.pid or 0, signal.SIGSTOP)
            _take(victim.pipe, journal, 0)  # what was acknowledged before
            instants.append((_copied(path, folder / f"copy{len(instants)}.db"), copy.deepcopy(journal)))
            os.kill(victim.process.pid or 0, signal.SIGCONT)
    finally:
        victim.process.kill()
        victim.process.join()
    for cut, known in instants:
        outcome.reopened_s = max(outcome.reopened_s, asyncio.run(settle(cut)))
        outcome.findings = check(cut, known)
        outcome.kills += 1
        if outcome.findings.any:
            break
    outcome.sent, outcome.acknowledged = len(journal.sent), len(journal.done)
    return outcome


def _take(pipe: Connection, journal: Journal, wait_s: float) -> None:
    """Record what writers report for this long, and everything they have reported by then."""
    until = time.monotonic() + wait_s
    while pipe.poll(max(0.0, until - time.monotonic())):
        journal.take(pipe.recv())


def _copied(path: Path, target: Path) -> Path:
    for end in ("", "-wal"):
        if Path(f"{path}{end}").exists():
            shutil.copyfile(f"{path}{end}", f"{target}{end}")
    return target


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.power_cuts", description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args(given)
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        outcome = cut_power(Path(folder), chosen.copies, chosen.seed)
    print(f"{outcome}".replace(" kills,", " copies,", 1))
    return int(outcome.findings.any)


if __name__ == "__main__":
    sys.exit(main())
