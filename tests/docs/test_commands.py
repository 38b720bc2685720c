"""The commands on each page run in order, and the extras that pages say to install exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect.interfaces.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
SHELL = ("", "sh", "bash")
NOT_RUN = {
    "serve": "serves until it is stopped",
    "mcp": "serves until it is stopped",
    "worker": "works until it is stopped",
    "chat": "talks; tests/interfaces/test_cli.py has its forms",
    "bench": "takes long, or needs files of others",
    "copy": "needs a server",
    "models": "needs the weights of a model",
    "reprocess": "needs a model; tests of its own have its forms",
    "import": "needs a file; tests/interfaces/test_import.py has its forms",
    "keys revoke": "needs the id of a key",
}
"""Commands that are not run: they only have to exist."""


def commands(page: Path) -> list[list[str]]:
    """The calls of `recollect` in the shell blocks of a page, without comments."""
    blocks = [found["code"] for found in FENCE.finditer(page.read_text(encoding="utf-8")) if found["language"] in SHELL]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("recollect ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The program, in a folder where it has been used before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECOLLECT_URL", raising=False)
    runner = CliRunner()
    for owner in ([], ["--user", "ann"], ["--user", "ann", "--org", "acme"]):
        assert runner.invoke(app, ["add", "I am allergic to peanuts.", *owner]).exit_code == 0
    return lambda words: runner.invoke(app, words)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_run_from_top_to_bottom(page, call):
    for words in commands(page):
        told = shlex.join(words)
        only_looked_at = next((each for each in NOT_RUN if told.startswith(each)), None)
        ran = call(words if only_looked_at is None else [*only_looked_at.split(), "--help"])
        found_nothing = ran.exit_code == 1 and ran.output.startswith("Nothing ")  # true, and not an error in the page
        assert ran.exit_code == 0 or found_nothing, f"recollect {told}: {ran.output}"


def test_no_page_installs_the_package_of_another_project_that_has_our_name():
    # On PyPI, `recollect` is somebody else's: in a fresh environment pip would install that.
    pages = [*PAGES, *ROOT.glob("*/README.md"), *ROOT.glob("examples/*.*")]
    named = re.compile(r"""pip\s+install\s+(?:-\S+\s+)*['"]?recollect\b""")
    shown = {page: named.findall(page.read_text(encoding="utf-8")) for page in pages if page.name != "reference.md"}
    told = {str(page.relative_to(ROOT)): len(found) for page, found in shown.items() if found}
    assert told == {"docs/README.md": 1}, "the one says what the messages of Recollect mean by it"


def test_pages_name_only_extras_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [*PAGES, ROOT / "examples" / "README.md", ROOT / "typescript" / "README.md"]
    said = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = {extra for group in re.findall(r"(?:recollect|\.)\[([a-z,-]+)\]", said) for extra in group.split(",")}
    assert named - set(project["optional-dependencies"]) == set()
    assert {"server", "mcp", "langchain"} <= named
