"""What people and programs see: tables, JSON, progress, and errors in one line with an exit code.

The text of memories was written by others. On a screen, every character that could move the cursor,
hide something or reverse text is shown as its escape, and nothing in it is read as markup.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from recollect.errors import Conflict, Corrupt, NotFound, RecollectError, ValidationError
from recollect.policies.fencing import shown
from recollect.records import Partition, as_datetime
from recollect.stores.contract import is_veil

PIPE_COLUMNS = 100
"""Width of tables when there is no screen to measure."""
LAST_COLUMN_MIN = 24
"""Any narrower, and a column of text is a tower of syllables."""
NOT_FOUND, BAD_INPUT, CONFLICT, UNAVAILABLE, CORRUPT, INTERRUPTED = 1, 2, 3, 4, 5, 130
EXIT_CODES: tuple[tuple[type[RecollectError], int], ...] = (
    (NotFound, NOT_FOUND),
    (ValidationError, BAD_INPUT),
    (Conflict, CONFLICT),
    (Corrupt, CORRUPT),
    (RecollectError, UNAVAILABLE),
)
EXIT_CODES_HELP = (
    "Exit codes: 0 done, 1 not found or nothing there, 2 bad input, 3 conflict, "
    "4 the store is unavailable or busy, 5 the stored data is corrupt, 130 interrupted."
)

_NOUNS = {
    **dict.fromkeys(("id", "ids"), "memory"),
    **dict.fromkeys(("entity", "kept", "other", "subject", "object"), "entity"),
    **dict.fromkeys(("retry", "failure_id"), "failed job"),
    "session": "session",
    "message_id": "message",
    "user": "user",
}
_OPTIONS = {"valid_from": "--since", "valid_to": "--until"}
"""Fields that have another name on the command line."""
_SHOWN_AS_ESCAPES = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # they hold emoji and Persian words together, and hide nothing
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_HIDDEN_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")


# ── Text of others, made harmless ────────────────────────────────────────────────────────────────


def visible(text: str) -> str:
    r"""Text in which nothing can hide or act: control and format characters as escapes.

    >>> visible("red \x1b[31malert")
    'red \\x1b[31malert'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c in _JOINERS or not _hides(c) else _escape(c) for c in text)


def one_line(text: str, width: int) -> str:
    """The beginning of a text, on one line and harmless."""
    return shown(visible(text), width)


def _hides(character: str) -> bool:
    return unicodedata.category(character) in _SHOWN_AS_ESCAPES


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


# ── For people ───────────────────────────────────────────────────────────────────────────────────


def screen() -> Console:
    """Standard output for people. Markup is off: brackets in a memory are brackets."""
    return Console(width=_width(), markup=False, highlight=False, emoji=False, soft_wrap=False)


def _width() -> int | None:
    return None if sys.stdout.isatty() else PIPE_COLUMNS


def say(said: str = "", style: str | None = None) -> None:
    """Print a text for people; a long line is wrapped under its beginning. In a pipe, lines are not wrapped."""
    console = screen()
    if not sys.stdout.isatty():
        console.print(Text(said), style=style, soft_wrap=True)
        return
    for line in said.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        text = Text(line.strip(" ") or " ")  # an empty text would print no line at all
        console.print(Padding(text, (0, 0, 0, indent), expand=False), style=style)


def entries(rows: Sequence[tuple[object, Text]]) -> None:
    """Print texts with a label before each; further lines go under the first. In a pipe nothing is wrapped."""
    width = max(len(str(label)) for label, _ in rows)
    if not sys.stdout.isatty():
        for label, text in rows:
            say(f"{label!s:>{width}}  " + text.plain.replace("\n", "\n" + " " * (width + 2)))
        return
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(justify="right", width=width)
    for label, text in rows:
        drawn.add_row(str(label), text)
    screen().print(drawn)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows under their headings; the last column takes the room that is left, or a line of its own.

    Where there is no room for headings, each number is preceded by its own.
    """
    if _is_narrow(columns, rows):
        for row in rows:
            told = [
                f"{name} {visible(str(cell))}" if name in right else visible(str(cell))
                for name, cell in zip(columns, row, strict=True)
            ]
            say("  ".join(told[:-1]), style="dim")
            say(f"  {told[-1]}")
        return
    drawn = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=False)
    for name in columns:
        last = name == columns[-1]
        drawn.add_column(name, no_wrap=not last, overflow="fold" if last else "ellipsis")
        drawn.columns[-1].justify = "right" if name in right else "left"
    for row in rows:
        drawn.add_row(*(cell if isinstance(cell, Text) else Text(visible(str(cell))) for cell in row))
    screen().print(drawn)


def _is_narrow(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Whether the screen leaves too little room for the last column."""
    taken = sum(max(len(str(cell)) for cell in cells) + 3 for cells in list(zip(columns, *rows, strict=True))[:-1])
    last = max((len(str(row[-1])) for row in rows), default=0)
    return screen().width - taken < min(last, LAST_COLUMN_MIN)


def day_and_time(when: int | datetime) -> str:
    """A time as people read it, on this machine's clock."""
    return f"{here(as_datetime(when) if isinstance(when, int) else when):%Y-%m-%d %H:%M}"


def here(moment: datetime) -> datetime:
    """A time on this machine's clock; in UTC where the machine cannot tell, as Windows cannot before 1970."""
    try:
        return moment.astimezone()
    except (OSError, OverflowError):
        return moment


def size(count: int | None) -> str:
    """A number of bytes as people say it."""
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def plural(count: int, noun: str) -> str:
    """`1 memory`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def owners(count: int) -> str:
    """How many owners there are: an org has records of its own.

    >>> owners(1), owners(2)
    ('1 user or org', '2 users and orgs')
    """
    return "1 user or org" if count == 1 else f"{count:,} users and orgs"


def whose(partition: Partition) -> str:
    """The user of a partition, or what to show in a user's place if there is none."""
    if is_veil(partition):
        return "(erased)"
    return partition.user or ("(the server)" if partition.org.startswith("{") else "(the org)")


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# ── Progress ─────────────────────────────────────────────────────────────────────────────────────

Advance = Callable[[int], None]
"""Called with how far the work is, in the unit of its total."""


def added_up(advance: Advance) -> Advance:
    """Takes how much was done since the last call, and passes on how far that is in all."""
    done = 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        advance(done)

    return more


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """A progress bar on standard error, only on a terminal, with the time that is left at the pace of the last half
    minute. Without a total, it just moves.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([TaskProgressColumn(), TimeRemainingColumn(compact=True), TextColumn("left")] if total else []),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


# ── For programs ─────────────────────────────────────────────────────────────────────────────────


def json_line(value: Any) -> str:
    """One line of JSON, UTF-8, with hidden characters escaped: the same value, harmless on a screen."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _HIDDEN_IN_JSON.sub(_json_escape, line)


def _json_escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def emit(value: Any) -> None:
    """One JSON document, and nothing else, on standard output."""
    write_line(json_line(value))


def write_line(line: str) -> None:
    """One line of JSON on standard output: in ASCII where that is not UTF-8, as in a pipe on Windows, so that any
    reader understands it."""
    if not line.isascii() and codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8":
        line = _NOT_ASCII.sub(_json_escape, line)
    sys.stdout.write(line + "\n")


# ── For either ───────────────────────────────────────────────────────────────────────────────────


def give(as_json: bool, document: Any, said: str) -> None:
    """The result of a command: a JSON document for programs, or what is said of it for people."""
    if as_json:
        emit(document)
    else:
        say(said)


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────


def complain(message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"recollect: {one_line(message, 400)}\n")


def plain(error: RecollectError) -> str:
    """An error in the words of the command line."""
    if isinstance(error, NotFound) and error.message == NotFound.__doc__:
        name, _, place = (error.field or "").partition(".")
        which = f" ({error.field})" if place else ""
        return f"no such {_NOUNS.get(name, 'thing')}{which}; check the id, and whose it is (--user, --org)"
    option = _OPTIONS.get(error.field or "")
    return f"{error} ({option})" if option else str(error)


def exit_code(error: RecollectError) -> int:
    """The exit code of an error."""
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
