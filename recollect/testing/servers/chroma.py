"""Chroma for tests: the server that its own package brings, started and stopped by us."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from recollect.testing.servers import free_port, kill

START_LIMIT_S = 30.0


class ChromaServer:
    """One server in a temporary folder."""

    def __init__(self) -> None:
        self._program = Path(sys.prefix) / "bin" / "chroma"
        if not self._program.exists():
            pytest.skip("no Chroma here: install chromadb")
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="recollect-chroma-")
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)
        self.start()

    @property
    def url(self) -> str:
        return f"chroma+http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it with what its folder holds; returns when it answers."""
        command = [str(self._program), "run", "--path", self._folder, "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until:
            with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{self.port}/api/v2/heartbeat"):
                return
            time.sleep(0.05)
        raise RuntimeError("Chroma did not start")

    def stop(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            kill(self._process)
            self._process = None

    def remove(self) -> None:
        atexit.unregister(self.remove)
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
