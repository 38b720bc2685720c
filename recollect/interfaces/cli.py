"""The program `recollect`: its commands, and what every one of them does when something goes wrong."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from recollect import __version__
from recollect.errors import RecollectError
from recollect.interfaces import (
    asking,
    backing_up,
    copying,
    graphing,
    keeping,
    knowing,
    measuring,
    models,
    moving,
    operating,
    rereading,
    serving,
    serving_mcp,
    teaching,
    trusting,
)
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
"""Set to see where an unexpected error came from. A traceback may hold memories: never the default."""
GUESSED = {
    **dict.fromkeys(("remember", "save", "store"), "add"),
    **dict.fromkeys(("find", "recall", "query", "ask"), "search"),
    **dict.fromkeys(("get", "show"), "history"),
    **dict.fromkeys(("delete", "remove", "rm"), "forget"),
    **dict.fromkeys(("reset", "clear", "wipe"), "erase"),
    **dict.fromkeys(("ls", "memories"), "list"),
    **dict.fromkeys(("start", "run", "server", "console"), "serve"),
    **dict.fromkeys(("check", "config", "status"), "doctor"),
    "help": "--help",
    "version": "--version",
}
"""What people type who have not read the list, and what does it here."""
_UsageError: Any = typer.BadParameter.__mro__[1]  # Typer has no public name for the parent of its own errors


class _PlainFlags:
    """Help that shows no type for what takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """One command."""


class Noun(_PlainFlags, TyperGroup):
    """The commands of one noun, such as `facts set`; without a verb it is the first of them, `facts list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if not asks_for_help and (not args or args[0].startswith("-")):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


class Commands(_PlainFlags, TyperGroup):
    """All commands. Whatever goes wrong in one of them is one line and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = GUESSED.get(args[0])
        if meant is not None:
            raise _UsageError(f"There is no command `{args[0]}`; it is `recollect {meant}`.", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        with contextlib.suppress(AttributeError):  # not every stream that is put in its place can
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except RecollectError as error:
            complain(plain(error))
            code = exit_code(error)
        except _UsageError as error:
            complain(f"usage: {_usage(error)} (--help says more)")
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
    if "unexpected extra argument" in told:  # most often a text without quotes, which may be nobody else's business
        return "There are more arguments than this takes; put a text of several words in quotes."
    return told


def _output_failed(error: OSError) -> int:
    """Standard output cannot be written: a full disk, or a reader that has seen enough."""
    # What is still buffered would fail again when Python leaves.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        complain(f"output: cannot be written ({os.strerror(error.errno or 0)})")
    return UNAVAILABLE


def _unexpected(error: Exception) -> int:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    complain(f"unexpected {type(error).__name__}; this is a mistake of Recollect's. {DEBUG}=1 shows where it is")
    return UNAVAILABLE


app = typer.Typer(
    name="recollect",
    cls=Commands,
    help="The memory of conversational agents: one file, no server, no key.",
    epilog=EXIT_CODES_HELP,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        say(f"recollect {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


Verbs = dict[str, Callable[..., None]]

_TALKING: Verbs = {
    "chat": asking.chat,
    "add": keeping.add,
    "search": asking.search,
    "context": asking.context,
    "sessions": asking.sessions,
    "users": operating.users,
    "list": keeping.list_memories,
    "history": keeping.history,
}
_KNOWING: dict[str, tuple[str, Verbs]] = {
    "facts": ("What is so of a user: say, confirm, correct or end it.", knowing.FACTS),
    "learnings": ("What was learned from working with a user.", teaching.LEARNINGS),
    "customize": ("Standing instructions for assistants, in every prompt.", teaching.CUSTOMIZE),
    "episodes": ("Stretches of conversation as they are remembered.", graphing.EPISODES),
    "graph": ("People, places and things, and how they hang together.", graphing.GRAPH),
    "entities": ("Business objects of the organisation, kept for a while.", graphing.ENTITIES),
}
_KEEPING: Verbs = {
    "import": moving.import_file,
    "export": moving.export,
    "copy": copying.copy,
    "backup": backing_up.backup,
    "restore": backing_up.restore,
    "undo": trusting.undo,
    "redo": trusting.redo,
    "quarantine": trusting.quarantine,
    "forget": moving.forget,
    "erase": moving.erase,
}
_RUNNING: Verbs = {
    "serve": serving.serve,
    "mcp": serving_mcp.mcp,
    "maintain": operating.maintain,
    "reprocess": rereading.reprocess,
    "reembed": models.reembed,
    "reindex": models.reindex,
    "models": models.models,
    "worker": operating.worker,
    "stats": operating.stats,
    "doctor": operating.doctor,
    "bench": measuring.bench,
}


def _register(group: typer.Typer, verbs: Verbs, panel: str | None = None) -> None:
    for name, command in verbs.items():
        group.command(name, cls=Command, epilog=EXIT_CODES_HELP, rich_help_panel=panel)(command)


def _noun(name: str, purpose: str, verbs: Verbs) -> typer.Typer:
    example = f"Example: recollect {name} {next(iter(verbs))}"
    group = typer.Typer(name=name, cls=Noun, help=f"{purpose}\n\n{example}", epilog=EXIT_CODES_HELP)
    _register(group, verbs)
    return group


_register(app, _TALKING, "Talk, remember, ask")
_register(app, {"profile": knowing.profile}, "What is known")
_register(app, _KEEPING, "Move and forget")
_register(app, _RUNNING, "Keep it running")
for name, (purpose, verbs) in _KNOWING.items():
    app.add_typer(_noun(name, purpose, verbs), rich_help_panel="What is known")
app.add_typer(_noun("keys", "Who may ask the server.", serving.KEYS), rich_help_panel="Keep it running")


def main() -> None:
    """Run the program."""
    app()
