"""What a program loads before it uses any of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from recollect.policies.patterns import pattern_of

HEAVY = ("numpy", "simsimd", "snowballstemmer", "importlib.metadata", "recollect.index", "recollect.enrich.rules")


@pytest.mark.parametrize("front_door", ["recollect", "recollect.sync"])
def test_importing_the_front_door_loads_nothing_that_only_an_open_memory_needs(front_door: str) -> None:
    program = f"import sys; from {front_door} import Memory; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_pattern_is_compiled_when_it_is_first_used_and_is_then_like_any_other() -> None:
    broken = pattern_of("(")
    word = pattern_of("[a-z]+")
    assert [word.findall("one two"), word.findall("three")] == [["one", "two"], ["three"]]
    assert word.pattern == "[a-z]+" and word.match("4") is None
    with pytest.raises(Exception, match="missing"):
        broken.search("any")
