"""Run Python code as it would find the world on Windows: `python as_on_windows.py CODE ARGUMENT...`.

Only what matters to Recollect is different, and only for Recollect: libraries are left to their authors. Modules and
functions that Windows lacks are gone; files that are open cannot be removed or replaced; a folder cannot be opened; a
temporary file has a name; `select` takes only sockets; an event loop has no signal handlers; lines of text end in
CR LF; and reading a text without naming its encoding is an error.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import select
import signal
import socket
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

MODULES = {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
FUNCTIONS = {
    os: "chown confstr fchmod fork forkpty getegid geteuid getgid getloadavg getpgid getuid killpg lchown mkfifo nice"
    " register_at_fork setsid sysconf O_NOFOLLOW O_NONBLOCK",
    signal: "SIGALRM SIGCONT SIGHUP SIGKILL SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 pthread_kill",
}


def begin() -> None:
    for module, names in FUNCTIONS.items():
        for name in names.split():
            delattr(module, name)
    importing, opening, selecting = builtins.__import__, os.open, select.select

    def imported(name: str, own: Any = None, *more: Any, **named: Any) -> Any:
        if name in MODULES and (own or {}).get("__name__", "").startswith("recollect"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importing(name, own, *more, **named)

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if _is_folder(path) and sys._getframe(1).f_globals["__name__"].startswith("recollect"):
            raise PermissionError(13, "Permission denied", str(path))
        return opening(path, flags, *more, **named)

    def selected(*lists: Any) -> Any:
        if any(not isinstance(each, socket.socket) for some in lists[:3] for each in some):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
        return selecting(*lists)

    def no_handlers(*_: Any) -> None:
        raise NotImplementedError

    builtins.__import__, os.open, select.select = imported, opened, selected
    for name in ("remove", "rename", "replace", "unlink"):
        setattr(os, name, _only_closed(getattr(os, name)))
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile
    asyncio.SelectorEventLoop.add_signal_handler = no_handlers  # type: ignore[method-assign]
    sys.stdout.reconfigure(newline="\r\n")  # type: ignore[union-attr]
    warnings.filterwarnings("error", category=EncodingWarning, module=r"recollect(\..*)?")


def _is_folder(path: Any) -> bool:
    return not isinstance(path, int) and Path(os.fsdecode(path)).is_dir()


def _only_closed(change: Any) -> Any:
    """A change of names that refuses files which this process has open."""

    def changed(*paths: Any, **named: Any) -> None:
        folder = named.get("dir_fd")
        for path in paths:
            whole = Path(os.readlink(f"/proc/self/fd/{folder}") if folder is not None else "", os.fsdecode(path))
            if os.fspath(whole.absolute()) in _open_files():
                raise PermissionError(13, "The process cannot access the file: it is being used", str(path))
        change(*paths, **named)

    return changed


def _open_files() -> set[str]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISREG(os.stat(f"/proc/self/fd/{each}").st_mode):
                found.add(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:
            pass
    return found


if __name__ == "__main__":
    begin()
    code = sys.argv[1]
    sys.argv = ["recollect", *sys.argv[2:]]
    exec(compile(code, "code", "exec"), {"__name__": "__main__"})
