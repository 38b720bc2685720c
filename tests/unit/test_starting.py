"""What a program loads before it uses any of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from recollect.policies.patterns import pattern_of

HEAVY = (
    "numpy", "simsimd", "Stemmer", "importlib.metadata", "recollect.index", "recollect.enrich.rules",
    "recollect.setting_changes",
)  # fmt: skip


@pytest.mark.parametrize("front_door", ["recollect", "recollect.sync"])
def test_importing_the_front_door_loads_nothing_that_only_an_open_memory_needs(front_door: str) -> None:
    program = f"import sys; from {front_door} import Memory; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


HEAVIER_THAN_HELP = (
    "numpy",
    "simsimd",
    "Stemmer",
    "recollect.memory",
    "asyncio",
    "sqlite3",
    "urllib.request",
    "http.client",
    "statistics",
)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["serch", "tea"]])
def test_listing_the_commands_loads_none_of_them(words: list[str]) -> None:
    program = (
        f"import sys; sys.argv = ['recollect', *{words}]; from recollect.__main__ import main\n"
        "try: main()\n"
        f"except SystemExit: print('loaded:', *(name for name in {HEAVIER_THAN_HELP} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_a_pattern_is_compiled_on_first_use_and_then_works_like_any_other() -> None:
    broken = pattern_of("(")
    word = pattern_of("[a-z]+")
    assert [word.findall("one two"), word.findall("three")] == [["one", "two"], ["three"]]
    assert word.pattern == "[a-z]+" and word.match("4") is None
    with pytest.raises(Exception, match="missing"):
        broken.search("any")
