"""The table of commands: the name of each, where it lives, and its sentence in `recollect --help`.

A command is loaded when it is called. Its module imports numpy and more, which a list of all commands does not need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property, wraps
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from recollect.interfaces.output import EXIT_CODES_HELP


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and what it is for. The place is a function, or the verbs of a noun by name."""

    place: str
    purpose: str

    def load(self) -> Callable[..., None] | Mapping[str, Callable[..., None]]:
        module, _, name = self.place.partition(".")
        found: Callable[..., None] | Mapping[str, Callable[..., None]]
        found = getattr(import_module(f"recollect.interfaces.{module}"), name)
        return found


PANELS: dict[str, dict[str, Entry]] = {
    "Talk, remember, ask": {
        "chat": Entry(
            "asking.chat",
            "Talk to an assistant that answers from memory; without a terminal or input, a short demo plays.",
        ),
        "add": Entry("keeping.add", "Remember a text; a repeated text is kept once."),
        "search": Entry("asking.search", "Find the memories that answer a question best."),
        "context": Entry("asking.context", "Show what a chat model would be given for a question."),
        "sessions": Entry(
            "sessions.sessions",
            "List the conversations of a user; show, rename, close, compress, branch or forget one.",
        ),
        "users": Entry(
            "operating.users", "List the users that have memories and their orgs (the values --user and --org accept)."
        ),
        "list": Entry("keeping.list_memories", "List memories in the order they were first stored."),
        "update": Entry("keeping.update", "Change a memory; earlier versions stay in its history."),
        "bring-back": Entry(
            "keeping.bring_back", "Bring back a memory that upkeep retired, or ended as a duplicate of another."
        ),
        "history": Entry("keeping.history", "Show the versions of a memory, oldest first."),
    },
    "What is known": {
        "profile": Entry(
            "knowing.profile",
            "Show what is known about a user: now, what was true at a given time, or what was believed then.",
        ),
        "facts": Entry("knowing.FACTS", "Facts about a user: state, confirm, correct or end them."),
        "learnings": Entry("teaching.LEARNINGS", "What was learned from working with a user."),
        "customize": Entry("teaching.CUSTOMIZE", "Standing instructions for assistants, included in every prompt."),
        "working": Entry("tasking.WORKING", "The state of the task at hand, for one session or across sessions."),
        "episodes": Entry("graphing.EPISODES", "Remembered stretches of conversation."),
        "graph": Entry("graphing.GRAPH", "People, places and things, and how they are connected."),
        "entities": Entry("graphing.ENTITIES", "Business objects of the organisation, kept for a limited time."),
    },
    "Move and forget": {
        "import": Entry(
            "importing.import_file",
            "Import an export, messages or memories as JSON Lines, or another program's data; "
            "nothing is imported twice.",
        ),
        "export": Entry("moving.export", "Write everything about a user as JSON Lines, which `import` reads back."),
        "copy": Entry(
            "copying.copy", "Copy all memories from one store into another, and compare both sides afterwards."
        ),
        "backup": Entry("backing_up.backup", "Write a backup of the whole file while it stays in use, and check it."),
        "restore": Entry(
            "backing_up.restore",
            "Create a new file from a backup, and check it. An existing file is never replaced: move it away first.",
        ),
        "undo": Entry(
            "trusting.undo",
            "Undo what was learned from a session, from a message or by an extractor. `redo` brings it back.",
        ),
        "redo": Entry("trusting.redo", "Reverse an undo: what was learned counts again."),
        "quarantine": Entry(
            "trusting.quarantine",
            "Set a session or memories aside: nothing uses them any more, and what was learned from them is undone.",
        ),
        "forget": Entry("moving.forget", "Forget memories by id or by filter, with everything that depends on them."),
        "erase": Entry("moving.erase", "Forget everything about a user, and leave no trace of it in the file."),
    },
    "Keep it running": {
        "serve": Entry(
            "serving.serve",
            "Serve the memory over HTTP, with the console at /, until Ctrl-C. "
            "Each request is logged to standard error.",
        ),
        "mcp": Entry("serving_mcp.mcp", "Give an assistant the memory of one user, over the Model Context Protocol."),
        "maintain": Entry(
            "operating.maintain",
            "Consolidate memories, retire what is not worth keeping, and purge what is dead, for all users.",
        ),
        "reprocess": Entry(
            "rereading.reprocess", "Read stored conversations again, and show what would be learned; --apply learns it."
        ),
        "reembed": Entry("models.reembed", "Re-embed what another embedder embedded, while everything stays in use."),
        "reindex": Entry(
            "models.reindex", "Bring the index beside the store (the setting `index`) up to date with the store."
        ),
        "models": Entry(
            "models.models", "Build the embedding model all-MiniLM-L6-v2 for this machine, or list what is built."
        ),
        "worker": Entry("operating.worker", "Process what was said until Ctrl-C: embed, rate, merge, summarise."),
        "stats": Entry(
            "operating.stats",
            "Show how much is remembered, how it grows, how old it is, which jobs are waiting, and what is in use.",
        ),
        "doctor": Entry("operating.doctor", "Check this installation and its memories; nothing is changed."),
        "bench": Entry(
            "measuring.bench",
            "Measure how fast this installation is on this machine; with --data, how well it searches.",
        ),
        "keys": Entry("serving.KEYS", "Keys for the server: list, create and revoke them."),
    },
}


class PlainFlags:
    """Help that shows no type for options that take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(PlainFlags, TyperCommand):
    """One command."""


class Noun(PlainFlags, TyperGroup):
    """The commands of one noun, such as `facts set`; without a verb, the first of them, such as `facts list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        completes = ctx.resilient_parsing  # a shell asks which verbs there are, not for what the first of them takes
        if not asks_for_help and not completes and (not args or args[0].startswith("-")):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


class Later(TyperCommand):
    """A command that is listed at once, and loaded when it is called."""

    def __init__(self, name: str, entry: Entry, panel: str) -> None:
        super().__init__(name, help=entry.purpose, rich_help_panel=panel)
        self._entry = entry

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        found, name = self._entry.load(), str(self.name)
        if isinstance(found, Mapping):
            example = f"Example: recollect {name} {next(iter(found))}"
            group = typer.Typer(
                name=name, cls=Noun, help=f"{self._entry.purpose}\n\n{example}", epilog=EXIT_CODES_HELP,
                add_completion=False,
            )  # fmt: skip
        else:
            group, found = typer.Typer(add_completion=False), {name: found}
        for verb, command in found.items():
            group.command(verb, cls=Command, epilog=EXIT_CODES_HELP)(_spread(command))
        return get_command(group)

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.loaded.make_context(info_name, args, parent, **extra)


def _spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: if its first parameter is a dataclass, the fields of that are its last options."""
    parameters = [*inspect.signature(command, eval_str=True).parameters.values()]
    kind = parameters[0].annotation if parameters else None
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return command
    fields = inspect.signature(kind, eval_str=True).parameters

    @wraps(command)
    def called(**given: Any) -> None:
        command(kind(**{name: given.pop(name) for name in fields}), **given)

    called.__signature__ = inspect.Signature([*parameters[1:], *fields.values()])  # type: ignore[attr-defined]
    return called


def listed() -> dict[str, Later]:
    """All commands by name, none of them loaded."""
    return {name: Later(name, entry, panel) for panel, entries in PANELS.items() for name, entry in entries.items()}
