"""The notes about a user: plain words, dated once, whatever the keys and values are."""

from __future__ import annotations

import pytest

from recollect.policies.keys import KEYS
from recollect.policies.notes import Noted, note, third_person


@pytest.mark.parametrize(
    ("key", "values", "line"),
    [
        ("name", [Noted("Ann")], "Name: Ann"),
        ("child", [Noted("Mia")], "Child: Mia"),
        ("child", [Noted("Mia", "daughter"), Noted("Theo")], "Children: Mia (daughter), Theo"),
        ("hobby", [Noted("chess", month="May 2026"), Noted("go", month="May 2026")],
         "Enjoys chess, go (as of May 2026)"),
        ("hobby", [Noted("chess", month="May 2026"), Noted("go", month="June 2026")],
         "Enjoys chess (as of May 2026), go (as of June 2026)"),
        ("age", [Noted("32", month="May 2026", is_sure=False)], "Age: 32 (not sure) (as of May 2026)"),
        ("theme", [Noted("dark")], "Colours of the screen: dark"),
        ("favorite_cake", [Noted("lemon drizzle")], "Favorite cake: lemon drizzle"),
        ("{0}", [Noted("{1}")], "{0}: {1}"),
    ],
)  # fmt: skip
def test_a_line_says_what_is_known(key: str, values: list[Noted], line: str) -> None:
    assert note(key, values) == line


def test_every_key_has_its_own_wording() -> None:
    for key in KEYS:
        line = note(key, [Noted("x")])
        assert line.endswith("x")
        assert line[0].isupper()
        assert "_" not in line


def test_values_that_belong_together_are_on_one_line() -> None:
    assert note("name", [Noted("Ann")], [("nickname", Noted("Annie"))]) == "Name: Ann, called Annie"
    assert note("occupation", [Noted("nurse")], [("employer", Noted("KPMG"))]) == "Occupation: nurse at KPMG"


def test_the_users_own_words_are_put_in_the_third_person() -> None:
    assert third_person("improve my French and treat myself") == "improve their French and treat themselves"
    assert third_person("summer in Munich") == "summer in Munich"
