"""Four times as much as a server can do, for a minute: the rest is refused, and what is let in is served in time.

    python -m recollect.testing.overload --seconds 60

Passes if every request is answered (201, 429 or 503), those that are let in wait less than three times as long as
on a busy but ordinary day (the slowest of a hundred), memory grows by 64 MiB at most, and four seconds later all
requests are let in again.
How long they wait counts only if the sender itself keeps up.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recollect.testing.load import Measured, add, ask, flood, quantile_ms, running

SERVE = [sys.executable, "-m", "recollect", "serve", "--port", "0", "--set", "worker=false"]
BUSY = 64
"""Connections that keep a server as busy as it can be."""
TIMES = 4
SLOWER_MAX = 3.0
GROWTH_MIB = 64.0
LATE_MOST_MS = 100.0
"""How late the sender may be (p99) before its times say more about itself than about the server."""
RECOVERY_S = 4.0
"""How long recovery may take; after that, everything has to be let in again."""


@dataclass(frozen=True)
class Outcome:
    """How it was before, during and after."""

    usual: Measured
    flooded: Measured
    after: Measured
    before_mib: float
    most_mib: float

    @property
    def slower(self) -> float:
        """How many times as long as before the slowest of a hundred waited, among the requests that were let in."""
        return quantile_ms(self.flooded.done_s, 0.99) / max(quantile_ms(self.usual.done_s, 0.99), 0.001)

    @property
    def is_fair(self) -> bool:
        """Whether the sender sent in time, so that its times are the server's."""
        return quantile_ms(self.flooded.late_s, 0.99) <= LATE_MOST_MS

    def failures(self) -> list[str]:
        """What is not as it should be."""
        wrong = sorted(set(self.flooded.statuses) - {201, 429, 503})
        found = [f"answers with {status}" for status in wrong]
        if self.is_fair and self.slower >= SLOWER_MAX:
            found.append(f"p99 of those let in is {self.slower:.1f} times as long")
        grown = self.most_mib - self.before_mib
        found += [f"memory grew by {grown:.0f} MiB"] if grown > GROWTH_MIB else []
        found += ["it did not recover"] if set(self.after.statuses) != {201} else []
        return found


async def overload(seconds: float, folder: Path) -> Outcome:
    """Flood a server that is started for this."""
    with running(SERVE, folder / "over") as server:
        await ask("warm", server, add, 4, 1)
        usual = await ask("add, as much as it takes", server, add, BUSY, max(3.0, seconds / 6))
        before = server.memory_mib
        flooded = await flood("add, four times as much", server, add, usual.rate * TIMES, seconds)
        most = server.memory_mib
        await asyncio.sleep(RECOVERY_S)
        after = await ask("add, four seconds later", server, add, BUSY, RECOVERY_S)
    return Outcome(usual, flooded, after, before, most)


def told(outcome: Outcome) -> str:
    """The outcome as a few lines."""
    lines = [f"{'':<28}{'a second':>9}{'p50 ms':>10}{'p99 ms':>10}"]
    flooded = outcome.flooded
    rows = [(each, each.times_s) for each in (outcome.usual, flooded)]
    admitted = Measured("of these, let in", flooded.seconds, flooded.done_s)
    rows += [(admitted, flooded.done_s), (outcome.after, outcome.after.times_s)]
    for measured, times_s in rows:
        quantiles = "".join(f"{quantile_ms(times_s, share):10.1f}" for share in (0.5, 0.99))
        lines.append(f"{measured.name:<28}{measured.rate:9.0f}{quantiles}")
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(flooded.statuses.items()))
    late = quantile_ms(flooded.late_s, 0.99)
    lines.append(f"answers {statuses}; memory {outcome.before_mib:.0f} → {outcome.most_mib:.0f} MiB")
    lines.append(f"let in: {outcome.slower:.2f} times as slow (p99); the sender itself was {late:.0f} ms late (p99)")
    lines += [] if outcome.is_fair else ["there is too little processor here for the times to mean something"]
    return "\n".join(lines)


def main() -> None:
    """Flood as the command line says; exits with 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    print(f"the machine's load was {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="recollect-over-") as folder:
        outcome = asyncio.run(overload(options.seconds, Path(folder)))
    print(told(outcome))
    failures = outcome.failures()
    print("; ".join(failures) or "passed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
