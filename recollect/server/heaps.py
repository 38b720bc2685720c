"""How the memory of a serving process is looked after.

Its threads share one heap, so that what one of them frees is there for the others. The C library of most Linux systems
would give each thread one of its own, up to eight for each processor, and what is free in one of them is of no use to
another: under many chats at once that was a tenth of the process.

And what is there when the doors open stays to the end, so that the interpreter need not look through it again and again
for what nobody refers to: that was a tenth of the CPU.
"""

from __future__ import annotations

import ctypes
import gc
import os

M_ARENA_MAX = -8
"""The number of the parameter, as `malloc.h` of glibc has it."""
SAID_BY = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""With these, whoever runs the process has decided themselves."""

NEW_OBJECTS = 10_000
"""How many objects come, beyond those that go, before the interpreter looks for rings of them that nobody refers to."""


def settle() -> None:
    """All that is loaded by now stays, and is not looked through any more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def share_one() -> bool:
    """Let all threads of this process share one heap. False where that is not ours to say: then all stays as it is.

    It counts for threads that are still to come, so it is said first.
    """
    if any(os.environ.get(name) for name in SAID_BY) or not _is_glibc():
        return False
    return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False
