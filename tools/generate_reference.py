"""Write docs/reference.md from signatures, docstrings and tables: nothing in it is written by hand.

python tools/generate_reference.py          write it
python tools/generate_reference.py --check  fail if it is not up to date
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import recollect
from recollect import errors
from recollect.filters import FIELDS, OPERATORS
from recollect.layers import LAYERS, SECTIONS, Layer
from recollect.records import DAY_MS, HOUR_MS
from recollect.settings import FILE_NAME, PREFIX, Settings
from recollect.stores import SCHEMES
from recollect.stores.contract import ABILITIES

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference.md"
CLI = "recollect.interfaces.cli"
COMMON = {"--url", "--org", "--user", "--json"}
"""Options that are described once, not with every command."""

HANDLES = (
    ("memory", "Memory"), ("user", "User"), ("session", "Session"), ("org", "Org"), ("working", "Working"),
    ("profile", "Facts"), ("learnings", "Learnings"), ("customizations", "Customizations"), ("episodes", "Episodes"),
    ("graph", "Graph"), ("entities", "EntityCache"),
)  # fmt: skip
"""The objects whose verbs people call."""
OWNER = ("owner", "Owner")
"""What users and orgs have in common."""
INTERNAL = frozenset(("apply", "foreseen", "make", "run"))
"""Methods of handles that only the worker and upkeep call."""
SHAPES = (
    ("conversation", "Message"), ("conversation", "SessionInfo"), ("records", "Record"), ("records", "Scope"),
    ("records", "Source"), ("records", "Hit"), ("records", "Leg"), ("context", "Context"),
    ("context_policy", "ContextPolicy"),
    ("context", "ContextSection"), ("context", "ContextSource"), ("context", "Report"), ("context", "Kept"),
    ("policies.fitting", "LeftOut"), ("working", "State"), ("profile", "Fact"), ("profile", "Profile"),
    ("learnings", "Learning"), ("customizations", "Customization"), ("episodes", "Episode"),
    ("policies.graph_views", "Entity"), ("policies.graph_views", "Relation"),
    ("policies.graph_views", "Neighbourhood"), ("policies.graph_views", "Merge"), ("entities", "CachedEntity"),
    ("privacy", "Receipt"), ("trust", "Undone"), ("trust", "SetAside"), ("upkeep", "Maintained"),
    ("policies.retention", "Pruned"), ("reembedding", "Reembedded"), ("indexing", "Reindexed"),
    ("stores.contract", "Survey"), ("stores.contract", "Finding"), ("reprocessing", "Reprocessed"),
    ("reprocessing", "Difference"), ("models", "ChatModel"), ("models", "Ask"), ("models", "Answer"),
    ("providers", "Embedder"), ("reranking", "Reranker"),
)  # fmt: skip
"""What verbs accept and return."""

HEAD = """# Reference

Generated from the code by `tools/generate_reference.py`; do not edit. The [tutorial](tutorial.md) and the
how-to pages show how these are used; [limits](limits.md) lists what each value may be.

Verbs are `async`. `recollect.sync` has the same names without `await`; there `Memory.open` takes a URL or a
path, and a `with` block takes the place of `async with`. All times are in UTC.
"""

Class = ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Write the file, or check it."""
    if "--check" in sys.argv:
        return 0 if is_current() else 1
    TARGET.write_text(generate(), encoding="utf-8")
    return 0


def is_current() -> bool:
    """Whether the page is up to date with the code."""
    return TARGET.is_file() and TARGET.read_text(encoding="utf-8") == generate()


def generate() -> str:
    """The whole page."""
    parts = [HEAD, _names(), *(_handle(*handle) for handle in HANDLES), _shapes(), _settings(), _layers()]
    parts += [_filters(), _stores(), _errors(), _commands()]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


# ── the package ──────────────────────────────────────────────────────────────────────────────────


def _names() -> str:
    rows = []
    for name in recollect.__all__:
        value = getattr(recollect, name)
        about = _first_line(value.__doc__) if isinstance(value, type) else "The version of the package."
        rows.append((f"`{name}`", about))
    return "## Names\n\n`from recollect import ...`\n\n" + _table(("name", "what it is"), rows)


def _handle(module: str, name: str) -> str:
    node = _class(module, name)
    parts = [f"## {name}\n\n{_doc(node)}\n"]
    bases = [OWNER] if OWNER[1] in [ast.unparse(base) for base in node.bases] else []
    for where, holder in ((module, name), *bases):
        verbs = [method for method in _methods(_class(where, holder)) if method.name not in INTERNAL]
        parts += [_method(where, name, method) for method in verbs]
    return "\n".join(parts)


def _method(module: str, owner: str, node: Function) -> str:
    if _decorated(node, "property"):
        shown = f"{node.name}: {_returns(node)}"
    else:
        start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        shown = f"{start} {node.name}({_arguments(module, node)}) -> {_returns(node)}"
    return f"### {owner}.{node.name}\n\n```python\n{_wrapped(shown)}\n```\n" + (
        f"\n{_doc(node)}\n" if _doc(node) else ""
    )


def _shapes() -> str:
    parts = [
        "## Shapes\n\nWhat verbs accept and return. Records and what is made of them are frozen; edits make copies.\n"
    ]
    for module, name in SHAPES:
        node = _class(module, name)
        parts.append(f"### {name}\n\n`recollect.{module}.{name}`\n\n{_doc(node)}\n")
        rows = [
            (f"`{field}`", f"`{kind}`", f"`{default}`" if default else "") for field, kind, default in _fields(node)
        ]
        parts += [_table(("field", "type", "default"), rows)] if rows else []
        listed = [_listed(module, method) for method in _methods(node) if not _decorated(method, "classmethod")]
        parts += ["\n".join(filter(None, listed)) + "\n"] if any(listed) else []
    return "\n".join(parts)


def _listed(module: str, node: Function) -> str:
    """A method of a shape on one line; a property is already in the table and needs a line only for its text."""
    about = _first_line(_doc(node))
    if _decorated(node, "property"):
        return f"- `{node.name}`: {about}" if about else ""
    call = f"{node.name}({_arguments(module, node)}) -> {_returns(node)}"
    return f"- `{call}`: {about}" if about else f"- `{call}`"


# ── the tables ───────────────────────────────────────────────────────────────────────────────────


def _settings() -> str:
    about = dict(_described_fields(_class("settings", "Settings")))
    rows = [
        (f"`{item.name}`", f"`{getattr(Settings(), item.name)!r}`", f"`{PREFIX}{item.name.upper()}`", about[item.name])
        for item in fields(Settings)
    ]
    return (
        "## Settings\n\n"
        f"Passed to `Memory.open(name=value)`, else read from the environment, else from `{FILE_NAME}` in the\n"
        "current folder, else the default. An unknown name or a value of the wrong type is an error. Names in\n"
        f"`{FILE_NAME}` are those of the first column, at the top level.\n\n"
        + _table(("setting", "default", "environment", "meaning"), rows)
    )


def _layers() -> str:
    public = [_layer(row) for row in LAYERS.values() if row.public]
    own = [_layer(row) for row in LAYERS.values() if not row.public]
    head = ("layer", "holds", "kept with", "life", "found by", "section")
    return (
        "## Layers\n\n" + _table(head, public) + "\nThe library's own layers, which cannot be asked for by name:\n\n"
        + _table(head, own) + f"\nSections of a context, in order: {', '.join(f'`{name}`' for name in SECTIONS)}.\n"
    )  # fmt: skip


def _layer(row: Layer) -> tuple[str, ...]:
    found = "words, meaning" if row.embedded else "words" if row.searched else ""
    kept = ", ".join(("user", *row.scope))
    return f"`{row.name}`", row.about, kept, _life(row), found, row.section or ""


def _life(row: Layer) -> str:
    if row.life_ms is None:
        return "kept"
    span = f"{row.life_ms // DAY_MS} days" if row.life_ms > DAY_MS else f"{row.life_ms // HOUR_MS} h"
    return f"{span}, from the last write" if row.sliding else span


def _filters() -> str:
    known = ", ".join(f"`{name}`" for name in FIELDS)
    operators = ", ".join(f"`{name}`" for name in OPERATORS)
    return (
        "## Filters\n\n"
        f"Fields: {known} and `metadata.<key>`.\n\nOperators: {operators}; `and`, `or` and `not` combine filters.\n\n"
        "[Limits](limits.md#filters) says what each accepts, with examples.\n"
    )


def _stores() -> str:
    rows = [
        (f"`{scheme}://`", f"`{module}`", (importlib.import_module(module).__doc__ or "").partition("\n")[0])
        for scheme, module in SCHEMES.items()
    ]
    abilities = [(f"`{name}`", about) for name, about in ABILITIES.items()]
    return (
        "## Stores\n\n" + _table(("URL", "module", "where"), rows)
        + "\nWhat a store may offer beyond the promises of the [contract](contract.md):\n\n"
        + _table(("ability", "meaning"), abilities)
    )  # fmt: skip


def _errors() -> str:
    tree = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\nThe docstring")[0]
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    rows = [(f"`{error.__name__}`", " ".join((error.__doc__ or "").split())) for error in found]
    return (
        "## Errors\n\nAll are in `recollect.errors` and have `field` (what is wrong) and `message` (what to do).\n\n"
        f"```text\n{_dedented(tree)}\n```\n\n" + _table(("error", "default message"), rows)
    )


# ── the command line ─────────────────────────────────────────────────────────────────────────────


def commands() -> dict[str, Any]:
    """The commands of the command line by name, including `facts set`; empty if it is not installed."""
    if importlib.util.find_spec(CLI) is None:
        return {}
    module = importlib.import_module(CLI)
    return dict(_named(importlib.import_module("typer.main").get_command(module.app)))


def _named(group: Any, noun: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a group, each followed by its subcommands."""
    for verb, listed in group.commands.items():
        command = getattr(listed, "loaded", listed)
        name = f"{noun} {verb}".lstrip()
        yield name, command
        if hasattr(command, "commands"):
            yield from _named(command, name)


def _commands() -> str:
    common: dict[str, tuple[str, str, str]] = {}
    parts = [_command(name, command, common) for name, command in commands().items()]
    if not parts:
        return ""
    head = (
        "## Command line\n\n`recollect facts` alone means `recollect facts list`: a noun without a verb runs the\n"
        "first of its commands. Options of most commands:\n\n"
    )
    return head + _table(("option", "default", "meaning"), common.values()) + "\n" + "\n".join(parts)


def _command(name: str, command: Any, common: dict[str, tuple[str, str, str]]) -> str:
    """One command; options that all commands share are collected in `common` instead."""
    rows = []
    for parameter in command.params:
        if COMMON.intersection(parameter.opts):
            common.setdefault(parameter.opts[0], _parameter(parameter))
        elif not getattr(parameter, "hidden", False):
            rows.append(_parameter(parameter))
    depth = "###" if " " not in name else "####"
    text = f"{depth} recollect {name}\n\n{_paragraphs(command.help or '')}\n"
    return text + ("\n" + _table(("argument", "default", "meaning"), rows) if rows else "")


def _parameter(parameter: Any) -> tuple[str, str, str]:
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    default = parameter.default
    shown = f"`{default}`" if default and default is not True and not callable(default) else ""
    meaning = " ".join((getattr(parameter, "help", None) or "").split())
    return ", ".join(f"`{name}`" for name in names), "required" if parameter.required else shown, meaning


def _paragraphs(text: str) -> str:
    """The help text of a command, with its example as code."""
    found = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n") if part.strip()]
    return "\n\n".join(re.sub(r"^Example: (.+)$", r"Example: `\1`", part) for part in found)


# ── reading the code ─────────────────────────────────────────────────────────────────────────────


@cache
def _tree(module: str) -> ast.Module:
    place = ROOT / "recollect" / module.replace(".", "/")
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _class(module: str, name: str) -> Class:
    return next(node for node in _tree(module).body if isinstance(node, Class) and node.name == name)


def _methods(node: Class) -> Iterator[Function]:
    for each in node.body:
        if isinstance(each, Function) and not each.name.startswith("_"):
            yield each


def _decorated(node: Function, name: str) -> bool:
    return any(ast.unparse(decorator) == name for decorator in node.decorator_list)


def _doc(node: Class | Function) -> str:
    """The docstring; an example in it becomes a block."""
    text = ast.get_docstring(node) or ""
    return re.sub(r"(^>>> (?:.+\n?)+)", lambda example: f"```python\n{example.group().rstrip()}\n```", text, flags=re.M)


def _fields(node: Class) -> Iterator[tuple[str, str, str]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            default = "" if each.value is None or isinstance(each.value, ast.Call) else ast.unparse(each.value)
            yield each.target.id, ast.unparse(each.annotation), default
        elif isinstance(each, ast.FunctionDef) and _decorated(each, "property"):
            yield each.name, _returns(each), ""


def _described_fields(node: Class) -> Iterator[tuple[str, str]]:
    """Fields with the docstring that follows each."""
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(text.value.value).split())


def _arguments(module: str, node: Function) -> str:
    """The arguments without `self`; a constant used as a default is shown by its value."""
    given = node.args
    optional = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    shown = [_argument(module, *pair) for pair in zip(given.args[1:], optional[1:], strict=True)]
    shown += ["*"] if given.kwonlyargs else []
    shown += [_argument(module, *pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    shown += [f"**{_argument(module, given.kwarg, None)}"] if given.kwarg else []
    return ", ".join(shown)


def _argument(module: str, node: ast.arg, default: ast.expr | None) -> str:
    text = f"{node.arg}: {ast.unparse(node.annotation)}" if node.annotation else node.arg
    if default is None:
        return text
    name = default.id if isinstance(default, ast.Name) else ""
    value = getattr(importlib.import_module(f"recollect.{module}"), name, None)
    return f"{text} = {value!r}" if isinstance(value, int | str) else f"{text} = {ast.unparse(default)}"


def _returns(node: Function) -> str:
    return ast.unparse(node.returns) if node.returns else "None"


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _wrapped(signature: str) -> str:
    """The signature, with one argument per line if it is long."""
    if len(signature) <= 100:
        return signature
    start, _, rest = signature.partition("(")
    inside, _, end = rest.rpartition(") ->")
    arguments = "".join(f"    {argument},\n" for argument in _split(inside))
    return f"{start}(\n{arguments}) ->{end}"


def _split(arguments: str) -> Iterable[str]:
    """Split at the commas outside brackets."""
    depth, start = 0, 0
    for place, character in enumerate(arguments):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield arguments[start:place].strip()
            start = place + 1
    yield arguments[start:].strip()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines()).strip()


def _first_line(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


if __name__ == "__main__":
    sys.exit(main())
