"""The documentation is true: its examples run, its links lead somewhere, and nothing public is left out of it."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import types
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pytest

import recollect
import recollect.sync
from recollect import errors
from recollect.layers import LAYERS
from recollect.policies.importance import WEIGHTS
from recollect.policies.keys import KEYS
from recollect.policies.scoring import WEIGHTS as SEARCH_WEIGHTS
from recollect.settings import PREFIX, Settings
from recollect.stores import SCHEMES
from recollect.stores.contract import Offers

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference.md"
BY_HAND = sorted({ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")} - {REFERENCE})

BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```python\n(?P<code>.*?)^```$", re.M | re.S)
LINK = re.compile(
    r"\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)|(?:src|srcset)=\"(?P<image>[^\"]+)\""
)
CALLED = re.compile(r"\.(\w+)\(")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One piece of Python on a page; `reason` says why it is not run."""

    code: str
    line: int
    reason: str | None


def blocks(page: Path) -> list[Block]:
    """The Python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["code"], text.count("\n", 0, found.start("code")), found["reason"])
        for found in BLOCK.finditer(text)
    ]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def compiled(code: str, name: str, mode: str) -> types.CodeType:
    """Compile code in which `await` may appear outside a function, as in `python -m asyncio`."""
    return compile(code, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


async def run(code: types.CodeType, names: dict[str, Any]) -> None:
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


def generator(name: str = "generate_reference") -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def handles() -> dict[str, list[str]]:
    """The objects that people call verbs on, with their verbs."""
    reference = generator()
    found = {
        name: vars(getattr(importlib.import_module(f"recollect.{home}"), name)) for home, name in reference.HANDLES
    }
    return {
        name: [verb for verb in verbs if not verb.startswith("_") and verb not in reference.INTERNAL]
        for name, verbs in found.items()
    }


PAGES = [page for page in BY_HAND if blocks(page)]
HANDLES = handles()


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path, monkeypatch):
    """Examples write their files into an empty folder and see no settings of this machine."""
    monkeypatch.chdir(tmp_path)
    for setting in fields(Settings):
        monkeypatch.delenv(f"{PREFIX}{setting.name.upper()}", raising=False)


# ── what runs ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    if any('quality="best"' in block.code and block.code.startswith(">>>") for block in blocks(page)):
        pytest.importorskip("recollect_rerank", reason="no reranker here: install recollect[rerank]")
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        if block.reason is not None:
            compiled(block.code, name_of(page), "exec")  # it must at least be Python
        elif block.code.startswith(">>>"):
            await check_session(block.code, names, name_of(page), block.line)
        else:
            await run(compiled("\n" * block.line + block.code, str(page), "exec"), names)


async def test_the_first_lines_of_the_readme_print_what_it_says(capsys):
    page = ROOT / "README.md"
    first = blocks(page)[0]
    shown = page.read_text(encoding="utf-8").partition(first.code)[2].split("```\n")[2]
    await run(compiled(first.code, name_of(page), "exec"), {})
    assert shown.startswith("found, best first") and shown in capsys.readouterr().out


def test_few_blocks_are_not_run_and_each_says_why():
    skipped = {f"{name_of(page)}:{b.line}": b.reason for page in PAGES for b in blocks(page) if b.reason is not None}
    every = sum(len(blocks(page)) for page in PAGES)
    assert len(skipped) <= every // 10, skipped


def modules_with_examples() -> list[str]:
    found = pkgutil.walk_packages(recollect.__path__, "recollect.")
    return [each.name for each in found if ">>> " in (source_of(each.name) or "")]


def source_of(module: str) -> str | None:
    origin = importlib.util.find_spec(module).origin
    return Path(origin).read_text(encoding="utf-8") if origin else None


@pytest.mark.parametrize("module", modules_with_examples())
async def test_the_examples_in_docstrings_hold(module):
    loaded = importlib.import_module(module)
    for test in doctest.DocTestFinder(exclude_empty=True).find(loaded):
        async with handles_for(module) as handles:
            names = handles | test.globs
            for example in test.examples:
                await check(example, names, test.name, test.lineno or 0)


@contextlib.asynccontextmanager
async def handles_for(module: str) -> AsyncIterator[dict[str, Any]]:
    """What examples of verbs begin with: an open memory, a user and a session of theirs."""
    if module == "recollect.sync":
        with recollect.sync.Memory.open("memory://", worker=False) as memory:
            yield {"memory": memory, "ann": memory.user("ann"), "chat": memory.user("ann").session("monday")}
        return
    async with recollect.Memory.open("memory://", worker=False) as memory:
        yield {"memory": memory, "ann": memory.user("ann"), "chat": memory.user("ann").session("monday")}


async def check_session(text: str, names: dict[str, Any], where: str, line: int) -> None:
    for example in doctest.DocTestParser().get_examples(text):
        await check(example, names, where, line)


async def check(example: doctest.Example, names: dict[str, Any], where: str, line: int) -> None:
    """Run one `>>>` and compare what it prints; if it awaits something and shows nothing, only run it."""
    out = io.StringIO()
    code = compiled(example.source, where, "single")
    try:
        with contextlib.redirect_stdout(out):
            await run(code, names)
    except Exception as error:
        assert example.exc_msg is not None, f"{where}, line {line + example.lineno}: {error!r}"
        kind = type(error)
        shown = {f"{kind.__module__}.{kind.__qualname__}: {error}\n", f"{kind.__qualname__}: {error}\n"}
        assert example.exc_msg in shown
        return
    if example.want or not code.co_flags & inspect.CO_COROUTINE:
        same = doctest.OutputChecker().check_output(example.want, out.getvalue(), doctest.ELLIPSIS)
        assert same, f"{where}, line {line + example.lineno}: expected {example.want!r}, got {out.getvalue()!r}"


@pytest.mark.parametrize("handle", HANDLES)
def test_every_verb_of_the_tutorial_shows_an_example_where_an_editor_shows_it(handle):
    used = {
        verb
        for page in ("README.md", "docs/tutorial.md")
        for b in blocks(ROOT / page)
        for verb in CALLED.findall(b.code)
    }
    kind = next(
        vars(importlib.import_module(f"recollect.{home}"))[name] for home, name in generator().HANDLES if name == handle
    )
    verbs = {name: verb for name in HANDLES[handle] if callable(verb := getattr(kind, name)) and name in used}
    assert ">>>" in kind.__doc__ or [name for name in verbs if ">>>" not in inspect.getdoc(verbs[name])] == []


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


def said(pages: list[Path]) -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_the_reference_is_what_the_generator_writes():
    assert generator().is_current(), "run: python tools/generate_reference.py"


def public_things() -> dict[str, list[str]]:
    error_classes = [name for name, value in vars(errors).items() if isinstance(value, type)]
    verbs = [f"{handle}.{verb}" for handle, named in HANDLES.items() for verb in named]
    return {
        "name": recollect.__all__,
        "verb": verbs,
        "setting": [setting.name for setting in fields(Settings)],
        "error": error_classes,
        "layer": list(LAYERS),
        "store": [f"{scheme}://" for scheme in SCHEMES],
        "command": [f"recollect {name}" for name in generator().commands()],
    }


@pytest.mark.parametrize("kind", list(public_things()))
def test_everything_public_is_in_the_reference(kind):
    text = said([REFERENCE])
    missing = [thing for thing in public_things()[kind] if not re.search(rf"{re.escape(thing)}(?!\w)", text)]
    assert missing == []


@pytest.mark.parametrize("handle", HANDLES)
def test_every_verb_is_shown_on_a_page_written_by_hand(handle):
    text = said(BY_HAND)
    assert [verb for verb in HANDLES[handle] if not re.search(rf"(?:\.|`){verb}\b", text)] == []


def test_every_command_is_shown_on_a_page_written_by_hand():
    text = said(BY_HAND)
    assert [name for name in generator().commands() if f"recollect {name}" not in text] == []


def test_every_error_is_explained_on_a_page_written_by_hand():
    text = said(BY_HAND)
    raised = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in raised if f"`{name}`" not in text] == []


def test_everything_a_store_may_offer_is_explained_to_those_who_write_one():
    text = (ROOT / "docs" / "how-to" / "new-store.md").read_text(encoding="utf-8")
    assert [name for name in Offers._fields if not re.search(rf"^\| `{name}\b", text, re.M)] == []


def test_the_importance_table_is_the_one_in_the_code():
    text = (ROOT / "docs" / "importance.md").read_text(encoding="utf-8")
    for name, (weight, reason) in WEIGHTS.items():
        assert f"| {name} | {weight:+.2f} | {reason} |" in text


def test_the_search_weights_are_those_in_the_code():
    text = (ROOT / "docs" / "how-to" / "search-and-filters.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"(words|cover|meaning|importance|recency)\s(0\.\d\d)", text))
    assert {name: float(weight) for name, weight in shown.items()} == asdict(SEARCH_WEIGHTS)


def test_the_limits_of_what_is_known_are_those_in_the_code():
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([\w.]+)\.([A-Z_]+)` \| ([\d,]+)", text, re.M)
    held = [getattr(importlib.import_module(f"recollect.{module}"), name) for module, name, _ in told]
    assert held == [int(limit.replace(",", "")) for *_, limit in told] != []


def test_the_page_about_profiles_names_every_key_that_the_rules_know():
    text = (ROOT / "docs" / "how-to" / "profile.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}`" not in text] == []


def test_the_page_of_the_house_is_what_the_generator_writes():
    house = generator("generate_house")
    assert house.generate() == (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    assert house.rooms() == set(house.ROOMS)


def test_every_file_on_the_path_of_a_message_or_a_question_exists():
    named = re.findall(r"`([a-z_/]+\.py)`", generator("generate_house").HEAD)
    walked = [name for name in named if not name.startswith(("tools/", "tests/"))]
    assert len(walked) > 20
    assert [name for name in walked if not (ROOT / "recollect" / name).is_file()] == []


# ── where links lead ─────────────────────────────────────────────────────────────────────────────


def anchors(page: Path) -> set[str]:
    """The anchors of a page, named as GitHub names them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*BY_HAND, REFERENCE], ids=name_of)
def test_links_lead_somewhere(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.finditer(text):
        path = link["path"] or link["image"]
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {path}"
        assert link["anchor"] is None or link["anchor"] in anchors(target), f"{name_of(page)}: #{link['anchor']}"


def test_the_index_links_to_every_page():
    index = ROOT / "docs" / "README.md"
    links = LINK.finditer(index.read_text(encoding="utf-8"))
    led_to = {(index.parent / link["path"]).resolve() for link in links if link["path"]}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= led_to


def test_every_page_can_be_reached_from_the_readme():
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            links = LINK.finditer(page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link["path"]).resolve() for link in links if link["path"]]
    assert set(BY_HAND) | {REFERENCE} <= seen


def test_what_to_install_is_told_so_that_every_shell_understands_it():
    # Brackets need quotes in zsh, and for `cmd` single quotes are none.
    told = [*ROOT.glob("*/README.md"), *BY_HAND, *(ROOT / "recollect").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    badly = re.compile(r"pip\s+install\s+(?:'|[\w.]*\[)")
    assert [name_of(path) for path in told if badly.search(path.read_text(encoding="utf-8"))] == []
