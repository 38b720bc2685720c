"""The program `recollect`: its commands, and what each of them does when something goes wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from recollect import __version__
from recollect.errors import RecollectError
from recollect.interfaces.commands import PlainFlags, listed
from recollect.interfaces.output import (
    BAD_INPUT,
    EXIT_CODES_HELP,
    INTERRUPTED,
    UNAVAILABLE,
    complain,
    exit_code,
    plain,
    say,
)

DEBUG = "RECOLLECT_DEBUG"
"""Set to see where an unexpected error came from. Never the default, because a traceback may contain memories."""
GUESSED = {
    **dict.fromkeys(("remember", "save", "store"), "add"),
    **dict.fromkeys(("find", "recall", "query", "ask"), "search"),
    **dict.fromkeys(("get", "show"), "history"),
    **dict.fromkeys(("delete", "remove", "rm"), "forget"),
    **dict.fromkeys(("reset", "clear", "wipe"), "erase"),
    **dict.fromkeys(("ls", "memories"), "list"),
    **dict.fromkeys(("edit", "change", "modify"), "update"),
    **dict.fromkeys(("recover", "unretire"), "bring-back"),
    **dict.fromkeys(("state", "scratchpad"), "working"),
    **dict.fromkeys(("start", "run", "server", "console"), "serve"),
    **dict.fromkeys(("check", "config", "status"), "doctor"),
    **dict.fromkeys(("failures", "jobs"), "worker --failures"),
    "help": "--help",
    "version": "--version",
}
"""What people type when they have not read the list, and the command that does it."""
_UsageError: Any = typer.BadParameter.__mro__[1]  # Typer has no public name for the parent of its own errors


class Commands(PlainFlags, TyperGroup):
    """All commands. Whatever goes wrong in one of them becomes one line and an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update(listed())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = GUESSED.get(args[0])
        if meant is not None:
            raise _UsageError(f"There is no command `{args[0]}`; use `recollect {meant}`.", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        with contextlib.suppress(AttributeError):  # a replacement stream may not support it
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            if not sys.stdout.isatty():  # the same bytes from every system
                sys.stdout.reconfigure(newline="\n")  # type: ignore[union-attr]
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except RecollectError as error:
            complain(plain(error))
            code = exit_code(error)
        except _UsageError as error:
            complain(f"usage: {_usage(error)} (see `{_help_of(error)}`)")
            code = BAD_INPUT
        except typer.Abort:
            code = INTERRUPTED
        except OSError as error:
            code = _output_failed(error)
        except Exception as error:
            code = _unexpected(error)
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    told = str(error.format_message())
    if "unexpected extra argument" in told:  # usually a text without quotes, which may be private
        return "Too many arguments; put a text of several words in quotes."
    return told


def _help_of(error: Any) -> str:
    """The command that explains the one that was used wrongly."""
    return f"{error.ctx.command_path if error.ctx else 'recollect'} --help"


def _output_failed(error: OSError) -> int:
    """Handle standard output that cannot be written: a full disk, or a reader that has seen enough."""
    # Output that is still buffered would fail again when Python exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not is_closed_pipe(error):
        complain(f"output: cannot be written ({os.strerror(error.errno or 0)})")
    return UNAVAILABLE


def is_closed_pipe(error: OSError, system: str = sys.platform) -> bool:
    """Whether the reader of a pipe has left, in the words of this system."""
    return isinstance(error, BrokenPipeError) or (system == "win32" and error.errno == errno.EINVAL)


def _unexpected(error: Exception) -> int:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    complain(f"unexpected {type(error).__name__}; this is a bug in Recollect. {DEBUG}=1 shows where")
    return UNAVAILABLE


app = typer.Typer(
    name="recollect",
    cls=Commands,
    help="The memory of conversational agents: one file, no server, no key.\n\n"
    "Begin with `recollect chat`. `recollect COMMAND --help` explains a command.",
    epilog=EXIT_CODES_HELP,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        say(f"recollect {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the program."""
    app()
