"""`recollect serve` and `recollect worker` as separate processes, to talk to and to kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

STOP_S = 30.0


@contextmanager
def program(
    folder: Path, *words: str, environ: Mapping[str, str] | None = None, log: str = "log.txt"
) -> Iterator[subprocess.Popen[str]]:
    """The program `recollect` in a folder, with no settings but these. It is killed at the end if it still runs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")} | dict(environ or {})
    command = [sys.executable, "-m", "recollect", *words]
    with (folder / log).open("w") as errors:
        running = subprocess.Popen(command, cwd=folder, env=own, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield running
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
            running.wait(STOP_S)
            if running.stdout is not None:
                running.stdout.close()


@contextmanager
def serving(
    folder: Path, *words: str, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server on a free port. Yields its address and its process."""
    with program(folder, "serve", "--port", "0", *words, environ=environ, log="requests.log") as running:
        line = running.stdout.readline() if running.stdout is not None else ""
        found = re.search(r"http://\S+?:\d+", line)
        if found is None:
            raise RuntimeError(f"no server: {line!r} {(folder / 'requests.log').read_text()[:500]!r}")
        yield found.group(), running
