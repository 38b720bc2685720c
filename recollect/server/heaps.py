"""Memory management of a serving process: one heap for all threads, and less garbage collection.

All threads share one heap, so that memory freed by one can be reused by the others. The C library of most Linux systems
would give each thread a heap of its own, up to eight for each processor, and memory that is free in one of them is of
no use to another: under many concurrent chats that was a tenth of the process.

Whatever is loaded when the server starts stays to the end, so the garbage collector need not scan it again and again:
that was a tenth of the CPU.
"""

from __future__ import annotations

import ctypes
import gc
import os

M_ARENA_MAX = -8
"""The number of the parameter, as in `malloc.h` of glibc."""
SAID_BY = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""If one of these is set, whoever runs the process has already decided."""

NEW_OBJECTS = 10_000
"""How many more objects are created than freed before the interpreter looks for unreachable cycles."""


def settle() -> None:
    """Keep everything loaded so far for good and exclude it from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def share_one() -> bool:
    """Let all threads of this process share one heap. False where that is not ours to decide: then nothing changes.

    It applies only to threads started later, so call it first.
    """
    if any(os.environ.get(name) for name in SAID_BY) or not _is_glibc():
        return False
    return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False
