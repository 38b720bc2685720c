"""How many heaps the threads of a process have, as reported by its own C library."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from recollect.server.heaps import SAID_BY, share_one

COUNTED = """
import ctypes, sys, threading
from recollect.server.heaps import share_one

print(share_one() if sys.argv[1] == "shared" else None, flush=True)
together = threading.Barrier(6)

def take():
    libc.free(libc.malloc(1_000))
    together.wait()

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = ctypes.c_void_p.in_dll(libc, "stdout")
libc.malloc_info(0, out)
libc.fflush(out)
"""


def counted(*said: str, **environ: str) -> tuple[str, int]:
    surroundings = {name: value for name, value in os.environ.items() if name not in SAID_BY} | environ
    told = subprocess.check_output([sys.executable, "-c", COUNTED, *said], env=surroundings, text=True)
    return told.partition("\n")[0], told.count("<heap nr=")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="heaps of threads are glibc's")
def test_server_threads_share_one_heap_unless_the_environment_says_otherwise():
    assert counted("shared") == ("True", 1)
    assert counted("as it is")[1] > 1
    assert counted("shared", MALLOC_ARENA_MAX="3")[0] == "False"


def test_nothing_is_done_when_the_environment_already_decides(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert share_one() is False


def test_objects_loaded_at_startup_are_not_scanned_by_the_garbage_collector_again():
    done = "settle(); print(gc.get_freeze_count(), len(gc.get_objects()))"
    program = f"import gc; from recollect.server.heaps import settle; {done}"
    frozen, looked_through = map(int, subprocess.check_output([sys.executable, "-c", program], text=True).split())
    assert frozen > 100 * looked_through
