"""Run the worlds of many seeds. The world of a seed that fails is run again with ever fewer errands, and told."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import time
from collections.abc import Sequence

from recollect.testing.simulation.callers import Errand
from recollect.testing.simulation.paper import WORD
from recollect.testing.simulation.run import Outcome, errands_of, simulate
from recollect.testing.simulation.world import FAULTS

PROGRAM = "python -m recollect.testing.simulation"
TOLD, TOLD_CHARS, TRACED = 3, 600, 60
"""Problems of a seed that are printed, how much of each, and how many lines of its trace."""
SHRINKS = 60
"""How often a world that fails is run again to find one with fewer errands."""
FOUND_WITHIN = 300
"""Seeds within which each fault must be found."""
COLLECTED = 20
"""Worlds after which memory is freed: while one runs, the collector is off."""
TOLD_EVERY = 1_000


def shrunk(outcome: Outcome, fault: str = "", most: int = SHRINKS) -> Outcome:
    """The same kind of problem with as few errands as can be found in so many runs."""
    wanted, size = _kind(outcome.wrong[0]), len(outcome.errands) // 2
    while size and most:
        start = 0
        while start < len(outcome.errands) and most:
            most -= 1
            fewer: list[Errand] = [*outcome.errands[:start], *outcome.errands[start + size :]]
            again = simulate(outcome.seed, fewer, fault=fault)
            if any(_kind(each) == wanted for each in again.wrong):
                outcome = again
            else:
                start += size
        size //= 2
    return outcome


def _kind(problem: str) -> str:
    """A problem without the words, numbers and names in it."""
    return re.sub(rf"{WORD.pattern}|\S*\d\S*|\b(?:ann|bob)\b", "", problem)[:60]


def told_of(outcome: Outcome, fault: str = "") -> str:
    """What is wrong in a world, how to see it again, and the steps that concern it."""
    words = set(WORD.findall(" ".join(outcome.wrong[:TOLD])))
    numbers = ",".join(str(errand.number) for errand in outcome.errands)
    chosen = f" --fault {fault}" if fault else ""
    lines = [
        f"seed {outcome.seed}: {len(outcome.wrong)} problems, seen with {len(outcome.errands)} errands",
        *(f"  {problem[:TOLD_CHARS]}" for problem in outcome.wrong[:TOLD]),
        f"  again: {PROGRAM} --seed {outcome.seed} --errands {numbers}{chosen} --trace",
    ]
    shown = [line for line in outcome.told if _concerns(*line[1:], words)]
    return "\n".join([*lines, *(traced(*line) for line in shown[-TRACED:])])


def _concerns(who: str, what: str, words: set[str]) -> bool:
    return "#" in what or any(word in what for word in words) or "killed" in what or who in ("store", "world")


def traced(at_s: float, who: str, what: str) -> str:
    return f"{at_s:12.4f} {who:10} {what}"


def run(seeds: Sequence[int], fault: str = "") -> list[int]:
    """Run these worlds, and tell of each that fails. Returns their seeds."""
    began, failed, steps = time.perf_counter(), [], 0
    for number, seed in enumerate(seeds, start=1):
        outcome = simulate(seed, fault=fault)
        steps += outcome.steps
        if outcome.wrong:
            failed.append(seed)
            print(told_of(shrunk(outcome, fault), fault), flush=True)
        if number % COLLECTED == 0:
            gc.collect()
        if number % TOLD_EVERY == 0 or number == len(seeds):
            took_s = time.perf_counter() - began
            print(f"{number} seeds, {steps:,} steps, {len(failed)} failed, {took_s:.0f} s", flush=True)
    return failed


def find_faults(names: Sequence[str]) -> list[str]:
    """Look for each of these faults in one world after the other. Returns those that were not found."""
    missed = []
    for name in names:
        for seed in range(FOUND_WITHIN):
            outcome = simulate(seed, fault=name)
            if outcome.wrong:
                print(f"{name}: found by seed {seed}: {outcome.wrong[0][:160]}", flush=True)
                break
            if seed % COLLECTED == 0:
                gc.collect()
        else:
            print(f"{name}: not found in {FOUND_WITHIN} seeds", flush=True)
            missed.append(name)
    return missed


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1_000, help="how many worlds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the seed of the first")
    parser.add_argument("--seed", type=int, help="only the world of this seed")
    parser.add_argument("--errands", help="only these errands of that world, by number")
    parser.add_argument("--trace", action="store_true", help="print every step of that world")
    parser.add_argument("--fault", default="", choices=FAULTS, help="with a fault that is to be found")
    parser.add_argument("--faults", action="store_true", help="look for each of these faults")
    chosen = parser.parse_args(given)
    if chosen.faults:
        return 1 if find_faults(list(FAULTS)) else 0
    if chosen.seed is None:
        return 1 if run(range(chosen.first, chosen.first + chosen.seeds), chosen.fault) else 0
    if not chosen.trace and chosen.errands is None:
        return 1 if run([chosen.seed], chosen.fault) else 0
    numbers = None if chosen.errands is None else set(map(int, chosen.errands.split(",")))
    errands = [each for each in errands_of(chosen.seed) if numbers is None or each.number in numbers]
    outcome = simulate(chosen.seed, errands, fault=chosen.fault)
    for line in outcome.told if chosen.trace else ():
        print(traced(*line))
    print("\n".join([*outcome.wrong, f"{outcome.steps} steps, digest {outcome.digest}"]))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts would be in another order in each process
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "recollect.testing.simulation", *sys.argv[1:]], environment)
    sys.exit(main())
