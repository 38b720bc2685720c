"""The gate: what may come in, what may not, and that errors name the field and never the value."""

from __future__ import annotations

import doctest
import enum
import json
import math
import re
import time
import unicodedata
from collections import OrderedDict, namedtuple
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import conditions, contents, filters, json_text, validate
from recollect.errors import TooLarge, ValidationError
from recollect.layers import LAYERS, PUBLIC_LAYERS
from recollect.records import Record, Scope, as_datetime
from recollect.stores import contract
from recollect.validate import LIMITS

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
NOT_STRINGS = [None, True, 0, 1, 1.5, b"bytes", [], ["a"], {}, {"$ne": ""}, {"$in": ["a"]}, {"ne": 1}, object()]
NOT_WHOLE_NUMBERS: list[Any] = [None, True, False, 1.5, 1.0, "3", [], {}, math.nan, math.inf]


class Colour(enum.StrEnum):
    RED = "red"


def shown(value: object) -> str | None:
    """A test id that is short however long the value is."""
    return ascii(value)[:40] if isinstance(value, (str, bytes)) else None


def refusal(check: Any, *args: Any, **options: Any) -> ValidationError:
    """The error of a call that must be refused."""
    with pytest.raises(ValidationError) as caught:
        check(*args, **options)
    assert caught.value.field, "every error names its field"
    assert caught.value.__context__ is None, "no other error that could hold the value hangs on it"
    return caught.value


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def in_objects(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"k": 1}
    for _ in range(depth - 1):
        value = {"k": value}
    return value


# ── C. Ids ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", NOT_STRINGS)
def test_only_a_string_is_an_id(value: object) -> None:
    assert refusal(validate.identifier, value, "user").field == "user"


@pytest.mark.parametrize("value", ["", " ", "\u00a0", "\u3000 ", "x" * 129, "x" * 1_000_000], ids=shown)
def test_an_id_has_1_to_128_characters_and_is_not_blank(value: str) -> None:
    refusal(validate.identifier, value, "user")


@pytest.mark.parametrize(
    "bad", ["\x00", "\n", "\r\n", "\t", "\x7f", "\x85", "\u2028", "\u2029", "\ud800", "{tag}", "{", "}"]
)
def test_an_id_has_no_control_characters_line_ends_surrogates_or_braces(bad: str) -> None:
    for value in (f"ann{bad}", f"{bad}ann", f"a{bad}nn", f"é{bad}"):
        refusal(validate.identifier, value, "user")


LITERAL_IDS = [
    *("*", "%", "_", "?", ".*", "[a]", "~", "-", "user1", "user10", "a_c", "abc", "Alice", "alice", "alice ", " alice"),
    *("a:b", "a.b", "a/b", "..", "\u00e9", "e\u0301", "\u0430", "a", "1", "01", "'; DROP TABLE", '") or true or ("'),
    *("x" * 128, "\U0001f9d1\u200d\U0001f680", "\ue000", "\uffff", "\U0010ffff", "a\u202eb", "\u200b", "a b", "\\0"),
]


@pytest.mark.parametrize("value", LITERAL_IDS)
def test_everything_else_is_a_literal_id_kept_exactly(value: str) -> None:
    assert validate.identifier(value, "user") == value


def test_ids_that_look_alike_stay_apart() -> None:
    assert len({validate.identifier(value, "user") for value in LITERAL_IDS}) == len(LITERAL_IDS)


@settings(deadline=None)
@given(st.text(max_size=140))
def test_an_id_is_kept_exactly_or_refused(value: str) -> None:
    kinds = {unicodedata.category(character) for character in value}
    fine = 0 < len(value) <= 128 and not value.isspace() and not kinds & {"Cc", "Cs", "Zl", "Zp"}
    if fine and "{" not in value and "}" not in value:
        assert validate.identifier(value, "user") == value
    else:
        refusal(validate.identifier, value, "user")


def test_an_enum_of_strings_becomes_a_plain_string() -> None:
    for checked in (
        validate.identifier(Colour.RED, "user"),
        validate.text(Colour.RED),
        validate.metadata({"c": Colour.RED})["c"],
    ):
        assert type(checked) is str and checked == "red"


def test_an_optional_id_or_name_may_be_none_but_not_empty() -> None:
    assert validate.optional_identifier(None, "session") is None
    assert validate.optional_identifier("Ann Smith", "name") == "Ann Smith"
    assert refusal(validate.optional_identifier, "", "name").field == "name"


# ── A. Text ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["", " ", "\n\t ", "\u00a0\u3000"])
def test_text_must_say_something(value: str) -> None:
    refusal(validate.text, value)


@pytest.mark.parametrize("value", NOT_STRINGS)
def test_only_a_string_is_text(value: object) -> None:
    assert refusal(validate.text, value).field == "content"


@pytest.mark.parametrize(
    "value",
    [
        "a\x00b", "\x00", "\ufffe\uffff\U0010ffff", "z" + "\u0301" * 1000, "\U0001f469\u200d\U0001f4bb",
        "caf\u00e9", "cafe\u0301", "\u202eabc\u200b\U000e0041", "a\r\nb\x0c\x1b[31m", "<script>alert(1)</script>",
        '{"lc":1}', "!!python/object", "'; DROP TABLE x", " padded ",
    ],
)  # fmt: skip
def test_odd_text_is_kept_to_the_last_character(value: str) -> None:
    assert validate.text(value) == value


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", "\ud83d text"])
def test_half_a_character_is_refused(value: str) -> None:
    assert type(refusal(validate.text, value)) is ValidationError


@pytest.mark.parametrize("character", ["a", "\u00e9", "\u20ac", "\U0001f600"])
def test_the_limit_of_text_is_in_bytes_and_exact(character: str) -> None:
    count, spare = divmod(LIMITS.text_bytes, len(character.encode()))
    full = character * count + "x" * spare
    assert validate.text(full) == full
    assert validate.text(full[1:]) == full[1:]
    for over in (full + "x", character + full):
        assert type(refusal(validate.text, over)) is TooLarge


def test_text_far_over_the_limit_is_refused_at_once() -> None:
    for huge in ("x" * 10_000_000, " " * 10_000_000, "\u20ac" * 10_000_000):
        start = time.process_time()
        assert type(refusal(validate.text, huge)) is TooLarge
        assert time.process_time() - start < 0.2


def test_a_text_may_have_another_limit_and_another_name() -> None:
    assert validate.text("x" * 10, "title", 10)
    assert refusal(validate.text, "x" * 11, "title", 10).field == "title"


def test_a_query_is_words_whatever_they_look_like() -> None:
    for value in ('"', "NEAR(", "a AND", "col:x", "^*-", "(" * 3000, "@{}[]()|-~*\"':;!&%", "a & !<->", "\x00"):
        assert validate.query(value) == value
    refusal(validate.query, " ")
    assert type(refusal(validate.query, "x " * 500_000)) is TooLarge


# ── B. Metadata and JSON ─────────────────────────────────────────────────────────────────────────


def test_no_metadata_is_an_empty_object() -> None:
    assert validate.metadata(None) == {}
    assert validate.metadata({}) == {}


@pytest.mark.parametrize("value", [[], [("a", 1)], "a", 1, True, {"a"}])
def test_metadata_is_an_object(value: object) -> None:
    assert refusal(validate.metadata, value).field == "metadata"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, float("1e400")])
def test_numbers_that_json_lacks_are_refused_by_path(value: float) -> None:
    assert refusal(validate.metadata, {"a": {"b": [1, value]}}).field == "metadata.a.b[1]"


def test_whole_numbers_are_exact_up_to_63_bits() -> None:
    for number in (2**53 + 1, 2**63 - 1, -(2**63 - 1), 0):
        assert validate.metadata({"n": number})["n"] == number
    for number in (2**63, -(2**63), 2**70, 10**5000):
        assert refusal(validate.metadata, {"n": number}).field == "metadata.n"


def test_metadata_may_be_8_deep_and_no_deeper() -> None:
    assert validate.metadata(in_objects(8)) == in_objects(8)
    for value in (in_objects(9), in_objects(1000), {"k": nested(8)}, {"k": nested(100_000)}):
        assert type(refusal(validate.metadata, value)) is ValidationError


def test_an_object_has_at_most_64_keys() -> None:
    assert len(validate.metadata({f"k{n}": n for n in range(64)})) == 64
    for count in (65, 100_000):
        assert type(refusal(validate.metadata, {f"k{n}": n for n in range(count)})) is TooLarge
        assert refusal(validate.metadata, {"in": {f"k{n}": n for n in range(count)}}).field == "metadata.in"


BAD_KEYS = [
    *("", "a\x00", "a.b", "$or", "a$", 'a"', "a'", "a\n", "a b", "k" * 65, "k" * 10_000, "1a", "-a", "é", "\ud800"),
    *(
        "__proto__",
        "constructor",
        "prototype",
        "k') = 'v' OR 1=1 --",
        'k"]',
        "k\n",
        "a:b",
        "a/b",
        1,
        None,
        True,
        ("a",),
    ),
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=shown)
def test_a_key_outside_the_allowed_set_is_refused_without_being_repeated(key: object) -> None:
    error = refusal(validate.metadata, {"fine": {key: 1}})
    assert error.field == "metadata.fine"
    assert "letters without accents, digits, _ and -" in str(error)
    assert not isinstance(key, str) or len(key) < 3 or key not in str(error)
    refusal(validate.metadata, {key: 1})


@pytest.mark.parametrize("key", ["a", "_", "A9", "snake_case", "kebab-case", "k" * 64])
def test_every_key_that_metadata_takes_can_be_filtered_on(key: str) -> None:
    condition = conditions.parse({f"metadata.{key}": 1})
    assert condition is not None
    assert condition.holds(Record("r", "long_term", Scope(), metadata=validate.metadata({key: 1})))


@pytest.mark.parametrize("key", sorted(validate.RESERVED_METADATA))
def test_reserved_names_are_refused_at_the_top_only(key: str) -> None:
    assert refusal(validate.metadata, {"topic": "work", key: "mallory"}).field == "metadata"
    assert validate.metadata({"order": {key: "o1"}}) == {"order": {key: "o1"}}


def test_the_reserved_names_cover_the_owner_and_the_identity() -> None:
    assert {"user_id", "org_id", "id", "hash", "created_at", "embedding"} <= validate.RESERVED_METADATA


@pytest.mark.parametrize(
    "value", [datetime.now(UTC), date(2026, 1, 1), {1, 2}, b"x", Decimal("1"), object(), 1j, range(3), iter([1])]
)
def test_types_that_json_lacks_are_refused_by_path(value: object) -> None:
    error = refusal(validate.metadata, {"a": {"b": [{"c": value}]}})
    assert error.field == "metadata.a.b[0].c"
    assert type(value).__name__ in error.message


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    wide: dict[str, Any] = {}
    wide.update({f"k{n}": wide for n in range(64)})
    ring: list[Any] = []
    ring.append(ring)
    for value in (circle, wide, {"ring": ring}):
        refusal(validate.metadata, value)


def test_a_small_value_that_unfolds_into_a_huge_one_is_refused_quickly() -> None:
    value: Any = "x"
    for _ in range(7):
        value = [value] * 1000
    start = time.process_time()
    assert type(refusal(validate.metadata, {"k": value})) is TooLarge
    assert time.process_time() - start < 0.5


def test_the_limit_of_metadata_is_its_compact_json_and_exact() -> None:
    overhead = len('{"k":""}')
    for character, width in (("x", 1), ("\u20ac", 3), ("\x00", 6), ('"', 2)):
        count = (LIMITS.metadata_bytes - overhead) // width
        assert validate.metadata({"k": character * count})
        assert type(refusal(validate.metadata, {"k": character * (count + 1)})) is TooLarge
    longest = [-1.7976931348623157e308] * 16
    assert validate.json_value(longest, "v", max_bytes=401) == longest
    assert type(refusal(validate.json_value, longest, "v", max_bytes=400)) is TooLarge


def test_a_string_inside_must_be_text() -> None:
    assert refusal(validate.metadata, {"a": ["\ud800"]}).field == "metadata.a[0]"
    assert validate.metadata({"a": "\x00"}) == {"a": "\x00"}
    assert validate.metadata({"a": ""}) == {"a": ""}


def test_the_copy_is_independent_and_plain() -> None:
    point = namedtuple("point", "x y")
    given_: Any = OrderedDict(inner={"list": [1, 2]}, pair=(1, (2, 3)), point=point(1, 2))
    checked = validate.metadata(given_)
    given_["inner"]["list"].append(3)
    assert checked == {"inner": {"list": [1, 2]}, "pair": [1, [2, 3]], "point": [1, 2]}
    assert type(checked) is dict and type(checked["pair"]) is list


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"\A[a-z]{1,8}\Z"), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)
@given(PLAIN)
def test_any_json_comes_back_equal_from_value_and_from_text(value: Any) -> None:
    assert validate.json_value(value, "v", max_bytes=100_000, depth=50) == value
    assert json_text.parse(json.dumps(value), "v") == value
    assert json_text.parse(json.dumps(value, ensure_ascii=False).encode(), "v") == value


@settings(deadline=None)
@given(PLAIN, st.integers(0, 400))
def test_a_value_passes_exactly_when_its_json_fits(value: Any, max_bytes: int) -> None:
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    if size <= max_bytes:
        validate.json_value(value, "v", max_bytes=max_bytes, depth=50)
    else:
        assert type(refusal(validate.json_value, value, "v", max_bytes=max_bytes, depth=50)) is TooLarge


def test_working_state_takes_any_json_with_wider_keys() -> None:
    state = {"user card": {"name": "Ann"}, "página": 1, "constructor": [None], "id": 7, "a.b": {}}
    assert validate.working(state) == state
    assert validate.working([1]) == [1] and validate.working(None) is None
    for key in ("__proto__", "", "a\x00", "\ud800", "a\n", "k" * 129, 1):
        assert refusal(validate.working, {key: 1}).field == "working"
    assert validate.working(nested(32)) == nested(32)
    refusal(validate.working, nested(33))
    assert type(refusal(validate.working, "x" * LIMITS.working_bytes)) is TooLarge


# ── B. JSON text ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "raw",
    [
        "", " ", "{", "nul", '{"a":1', "{'a':1}", '{"a":1,}', "[1 2]", '"a\nb"', "01", "+1", ".5", "1.", "0x1",
        "{} {}", "{}x", "[]\n[]", "1 2", b"\xff", b'{"a":"\xc3"}', b'"\xed\xa0\x80"', "\ufeff{}", b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"), '{"a":1,"a":2}', '{"b":{"a":1,"a":1}}', "NaN", "[Infinity]", "-Infinity",
        "1e400", "[-1e999]", str(2**63), str(-(2**63)), str(2**70), "9" * 5000, '"\\ud800"', '{"\\udc00":1}',
        '["\\uD83D"]', '"\ud800"',
    ],
    ids=shown,
)  # fmt: skip
def test_json_that_readers_would_understand_differently_is_refused(raw: str | bytes) -> None:
    error = refusal(json_text.parse, raw, "body")
    assert error.field == "body" and type(error) is ValidationError


@pytest.mark.parametrize("raw", [None, 1, {}, bytearray(b"{}")])
def test_only_text_is_read_as_json(raw: Any) -> None:
    refusal(json_text.parse, raw, "body")


def test_json_text_that_is_fine_is_read() -> None:
    assert json_text.parse(' {"a": [1, -2.5e3, true, null, "\\ud83d\\ude00", "\\u0000"]}\n', "body") == {
        "a": [1, -2500.0, True, None, "\U0001f600", "\x00"]
    }
    assert json_text.parse(str(2**63 - 1), "body") == 2**63 - 1
    assert json_text.parse("9007199254740993", "body") == 2**53 + 1
    assert json_text.parse('"\\\\ud800"', "body") == "\\ud800"


@pytest.mark.parametrize("depth", [65, 1000, 100_000, 500_000])
def test_deep_json_text_is_refused_without_crashing(depth: int) -> None:
    for raw in ("[" * depth + "]" * depth, "[" * depth, '{"a":' * min(depth, 170_000)):
        assert type(refusal(json_text.parse, raw, "body")) is ValidationError
    assert json_text.parse("[" * 64 + "]" * 64, "body") == nested(64)


def test_json_text_over_its_limit_is_refused_unread() -> None:
    whole = '"' + "x" * (LIMITS.body_bytes - 2) + '"'
    assert json_text.parse(whole, "body")
    for raw in (whole + " ", (whole + " ").encode(), '"' + "\u20ac" * 400_000 + '"', "[" * 10_000_000):
        assert type(refusal(json_text.parse, raw, "body")) is TooLarge
    assert type(refusal(json_text.parse, "[1,2,3]", "line", max_bytes=6)) is TooLarge


def test_an_error_in_json_text_says_where_but_not_what() -> None:
    error = refusal(json_text.parse, '{\n  "a": secret }', "body")
    assert "line 2, column 8" in error.message and "secret" not in str(error)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def test_there_are_four_roles_and_no_others() -> None:
    assert [validate.role(each) for each in ("system", "user", "assistant", "tool")] == list(validate.ROLES)
    for value in ("User", "developer", "", None, 1, ["user"], {"role": "user"}):
        assert refusal(validate.role, value).field == "role"


def test_content_is_text() -> None:
    assert contents.content("hello") == contents.Content("hello", None)
    for value in (None, 1, b"x", {"type": "text", "text": "x"}, "", " "):
        assert refusal(contents.content, value).field == "content"


def test_content_may_be_empty_where_tools_are_called() -> None:
    for value in (None, ""):
        assert contents.content(value, may_be_empty=True) == contents.Content("")
    assert contents.content(" ", may_be_empty=True).text == " "
    assert contents.content([], may_be_empty=True) == contents.Content("", [])
    for bad in (1, "\ud800", b""):
        refusal(contents.content, bad, may_be_empty=True)
    assert type(refusal(contents.content, " " * 70_000, may_be_empty=True)) is TooLarge


def test_parts_are_kept_exactly_and_their_text_can_be_searched() -> None:
    parts: list[Any] = [
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo", "days": [1, 2]}},
        {"type": "tool_result", "tool_call_id": "c1", "content": "Rain in Oslo"},
        {"type": "tool_result", "content": [{"type": "text", "text": "5 degrees"}, {"type": "image"}, 1]},
        {"type": "tool_result", "content": {"ok": True}},
    ]
    checked = contents.content(parts)
    assert checked.parts == parts and checked.parts is not parts
    assert checked.text == "Look:\nRain in Oslo\n5 degrees"
    assert contents.content(parts[1:2]) == contents.Content("", parts[1:2])


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([], "content"),
        ([{"type": "text", "text": " "}, {"type": "text", "text": ""}], "content"),
        (["text"], "content[0]"),
        ([{"text": "x"}], "content[0]"),
        ([{"type": "video", "url": "x"}], "content[0].type"),
        ([{"type": ["text"], "text": "x"}], "content[0].type"),
        ([{"type": "text"}], "content[0]"),
        ([{"type": "text", "text": 1}], "content[0].text"),
        ([{"type": "text", "text": "\ud800"}], "content[0].text"),
        ([{"type": "image_url", "image_url": "x"}], "content[0].image_url"),
        ([{"type": "image_url", "image_url": {"url": ""}}], "content[0].image_url.url"),
        ([{"type": "tool_call", "name": "f"}], "content[0]"),
        ([{"type": "tool_call", "id": "a\n"}], "content[0].id"),
        ([{"type": "text", "text": "x"}, {"type": "tool_result", "tool_call_id": 5}], "content[1].tool_call_id"),
        ([{"type": "text", "text": "x", "score": math.nan}], "content[0].score"),
        ([{"type": "text", "text": "x", "at": datetime.now(UTC)}], "content[0].at"),
        ([{"type": "text", "text": "x", "__proto__": 1}], "content[0]"),
    ],
)
def test_an_invalid_part_is_refused_by_its_place(parts: list[Any], field: str) -> None:
    assert refusal(contents.content, parts).field == field


def test_an_image_inside_a_message_counts_towards_its_size() -> None:
    def image(size: int) -> list[Any]:
        return [{"type": "image_url", "image_url": {"url": "data:," + "A" * size}}]

    overhead = len(json.dumps(image(0), separators=(",", ":")))
    assert contents.content(image(LIMITS.text_bytes - overhead))
    assert type(refusal(contents.content, image(LIMITS.text_bytes - overhead + 1))) is TooLarge


def test_tool_calls_are_kept_and_have_ids_of_their_own() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "c2", "name": "g"}]
    assert contents.tool_calls(calls) == calls
    assert contents.tool_calls([]) == []
    for value, field in (
        (None, "tool_calls"),
        ({"id": "c1"}, "tool_calls"),
        (["c1"], "tool_calls[0]"),
        ([{"name": "f"}], "tool_calls[0]"),
        ([{"id": "c1"}, {"id": 2}], "tool_calls[1].id"),
        ([{"id": "c1"}, {"id": "c1"}], "tool_calls"),
        ([{"id": "c1", "arguments": {1, 2}}], "tool_calls[0].arguments"),
    ):
        assert refusal(contents.tool_calls, value).field == field
    assert type(refusal(contents.tool_calls, [{"id": f"c{n}"} for n in range(65)])) is TooLarge
    assert type(refusal(contents.tool_calls, [{"id": "c", "arguments": "x" * 65_536}])) is TooLarge


# ── D. Numbers, lists and names ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [*NOT_WHOLE_NUMBERS, 0, -1, 1001, 2**31, 2**63, 2**70])
def test_a_limit_is_a_whole_number_from_1_to_1000(value: object) -> None:
    assert refusal(validate.limit, value).field == "limit"
    assert validate.limit(1) == 1 and validate.limit(1000) == 1000


@pytest.mark.parametrize("value", [*NOT_WHOLE_NUMBERS, 0, -1, 2_000_001, 2**70])
def test_a_token_budget_is_a_whole_number_up_to_two_million(value: object) -> None:
    assert refusal(validate.tokens_max, value).field == "max_tokens"
    assert validate.tokens_max(1) == 1 and validate.tokens_max(2_000_000) == 2_000_000


def test_a_batch_is_a_list_of_1_to_90_items() -> None:
    assert validate.batch(("a", "b")) == ["a", "b"]
    assert len(validate.batch(list(range(90)))) == 90
    assert type(refusal(validate.batch, list(range(91)))) is TooLarge
    not_lists: list[Any] = [[], (), None, "ab", {"a": 1}, {"a"}, iter(["a"])]
    for value in not_lists:
        assert refusal(validate.batch, value).field == "items"


def test_the_wrong_item_of_several_is_named_by_its_place_and_a_single_one_is_not() -> None:
    assert validate.each(["a", "b"], validate.text) == ["a", "b"]
    assert refusal(validate.each, ["a", ""], validate.text, "facts").field == "facts.1.content"
    assert refusal(validate.each, [""], validate.text, "facts").field == "content"
    assert type(refusal(validate.each, ["a", "x" * 70_000], validate.text)) is TooLarge


@pytest.mark.parametrize(
    "value", [None, True, False, "0.5", -0.01, 1.01, 2, math.nan, math.inf, -math.inf, [], Decimal("0.5")]
)
def test_importance_is_a_number_from_0_to_1(value: object) -> None:
    assert refusal(validate.unit_interval, value, "importance").field == "importance"
    assert [validate.unit_interval(each, "importance") for each in (0, 0.5, 1)] == [0.0, 0.5, 1.0]
    assert type(validate.unit_interval(1, "importance")) is float


def test_only_public_layers_can_be_named() -> None:
    assert [validate.layer(each) for each in PUBLIC_LAYERS] == list(PUBLIC_LAYERS)
    for value in (*(set(LAYERS) - set(PUBLIC_LAYERS)), "facts", "Fact", "", None, 1, ["fact"]):
        assert refusal(validate.layer, value).field == "layer"


def test_layers_are_one_or_several_and_no_choice_means_all_of_them() -> None:
    assert validate.layers(None) == ()
    assert validate.layers("fact") == ("fact",)
    assert validate.layers(["fact", "episodic", "fact"]) == ("fact", "episodic")
    for value in ([], ["fact", "past"], [None], {"fact"}, 1):
        assert refusal(validate.layers, value).field == "layers"


def test_a_choice_must_match_exactly_and_the_error_lists_the_options() -> None:
    assert validate.choice("best", ("fast", "best"), "quality") == "best"
    for value in ("Best", "bes", "", None, 1, ["best"]):
        assert "fast, best" in refusal(validate.choice, value, ("fast", "best"), "quality").message


# ── D11, G3. Times ───────────────────────────────────────────────────────────────────────────────

FIRST_OF_MARCH = 1_772_323_200_000


@pytest.mark.parametrize(
    "value",
    [
        FIRST_OF_MARCH, "2026-03-01", date(2026, 3, 1), "2026-03-01T00:00Z", "2026-03-01 00:00:00Z",
        "2026-03-01T00:00:00.000000000Z", "2026-03-01T14:00:00+14:00", "2026-02-28T12:00:00-12:00",
        "2026-03-01T05:30:00+05:30", datetime(2026, 3, 1, tzinfo=UTC),
        datetime(2026, 3, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)  # fmt: skip
def test_a_time_in_any_accepted_form_is_the_same_instant(value: object) -> None:
    assert validate.moment(value, "created_at") == FIRST_OF_MARCH


@pytest.mark.parametrize("value", ["2026-03-01T00:00:00", "2026-03-01 10:00", datetime(2026, 3, 1), datetime.min])
def test_a_time_without_a_zone_is_refused_with_advice_to_add_one(value: object) -> None:
    error = refusal(validate.moment, value, "created_at")
    assert error.field == "created_at" and "timezone" in error.message


@pytest.mark.parametrize(
    "value",
    [
        True, False, 1.5, math.nan, "", "now", "yesterday", "0000-01-01", "2026-13-01", "2026-02-30", "10000-01-01",
        "2016-12-31T23:59:60Z", "2026-03-01T24:00:01Z", "2026-03-01T00:00:00+25:00", "20260301", "2026-W09-7",
        "2026-03-01T00:00:00Z ", "2026-03-01\n", "٢٠٢٦-03-01", "1772323200000", [], {}, b"2026-03-01", 2**63, -(2**70),
        "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00", "2026-03-01T00:00:00" + "0" * 100_000 + "Z",
    ],
    ids=shown,
)  # fmt: skip
def test_an_invalid_time_is_refused(value: object) -> None:
    assert refusal(validate.moment, value, "created_at").field == "created_at"


def test_no_time_stays_none() -> None:
    assert validate.moment(None, "created_at") is None


def test_the_years_1_to_9999_are_accepted_and_shown() -> None:
    assert validate.moment("0001-01-01", "t") == LIMITS.moment_min_ms
    assert validate.moment("9999-12-31T23:59:59.999Z", "t") == LIMITS.moment_max_ms
    assert validate.moment(datetime.max.replace(tzinfo=UTC), "t") == LIMITS.moment_max_ms
    assert as_datetime(LIMITS.moment_min_ms).year == 1
    assert as_datetime(LIMITS.moment_max_ms).year == 9999
    refusal(validate.moment, LIMITS.moment_min_ms - 1, "t")
    refusal(validate.moment, LIMITS.moment_max_ms + 1, "t")


OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@settings(deadline=None)
@given(st.datetimes(timezones=OFFSETS, min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)))
def test_a_time_keeps_its_instant_to_the_millisecond(value: datetime) -> None:
    time_ms = validate.moment(value, "t")
    assert time_ms is not None
    assert (
        timedelta(0)
        <= value - (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms))
        < timedelta(milliseconds=1)
    )


# ── D. Filters ───────────────────────────────────────────────────────────────────────────────────


def found(where: Any, **fields: Any) -> bool:
    condition = conditions.parse(where)
    assert condition is not None
    return condition.holds(Record("r1", fields.pop("layer", "long_term"), Scope(user="ann", session="s1"), **fields))


def test_no_filter_is_none() -> None:
    assert conditions.parse(None) is None


def test_every_field_of_the_grammar_can_be_filtered_on() -> None:
    values: dict[str, Any] = {"layer": "fact", "role": "user", "trust": "trusted", "importance": 0.5, "confidence": 1}
    for field in filters.FIELDS:
        value = FIRST_OF_MARCH if field in filters.TIME_FIELDS else values.get(field, "x")
        assert conditions.parse({field: value}) == filters.Test(field, "eq", value)
        assert conditions.parse({field: [value]}) == filters.Test(field, "in", (value,))
        assert conditions.parse({field: {"exists": False}}) == filters.Test(field, "exists", False)


def test_a_filter_narrows_by_all_its_entries() -> None:
    where = {"importance": {"gte": 0.5}, "metadata.topic": "work"}
    assert found(where, importance=0.5, metadata={"topic": "work"})
    assert not found(where, importance=0.4, metadata={"topic": "work"})
    assert not found(where, importance=0.5, metadata={"topic": "home"})
    assert not found(where, importance=0.5)


def test_and_or_and_not_mean_what_they_say() -> None:
    work, home = {"metadata.topic": "work"}, {"metadata.topic": "home"}
    assert found({"or": [work, home]}, metadata={"topic": "home"})
    assert not found({"and": [work, home]}, metadata={"topic": "home"})
    assert found({"not": work}, metadata={"topic": "home"})
    assert found({"and": [{"or": [work, home]}, {"not": {"importance": {"gt": 0.9}}}]}, metadata={"topic": "work"})
    assert conditions.parse({"and": [work]}) == conditions.parse(work) == filters.Test("metadata.topic", "eq", "work")
    assert isinstance(conditions.parse({"or": [work, home]}), filters.Either)


def test_time_fields_accept_the_same_forms_as_times() -> None:
    march = {"created_at": {"gte": "2026-03-01", "lt": datetime(2026, 4, 1, tzinfo=UTC)}}
    assert found(march, created_at=FIRST_OF_MARCH)
    assert not found(march, created_at=FIRST_OF_MARCH - 1)
    assert found({"event_at": FIRST_OF_MARCH}, event_at=FIRST_OF_MARCH)
    assert "timezone" in refusal(conditions.parse, {"created_at": {"gte": "2026-03-01T00:00:00"}}).message
    refusal(conditions.parse, {"created_at": 1.5})


def test_a_time_may_count_back_from_when_the_question_is_asked() -> None:
    day = 24 * 3600 * 1000
    for ago, length in (("-30m", day // 48), ("-12h", day // 2), ("-7d", 7 * day), ("-2w", 14 * day)):
        assert conditions.parse({"created_at": {"gte": ago}}, at=FIRST_OF_MARCH) == filters.Test(
            "created_at", "gte", FIRST_OF_MARCH - length
        )
    for bad in ("-7", "7d", "-7y", "-0.5d", "-9999999d", "-7d "):
        refusal(conditions.parse, {"created_at": {"gte": bad}}, at=FIRST_OF_MARCH)
    refusal(conditions.parse, {"created_at": {"gte": "-999999w"}}, at=FIRST_OF_MARCH)
    assert refusal(conditions.parse, {"created_at": {"gte": "-7d"}}).field == "where.created_at"


def test_labels_compare_by_value_and_kind() -> None:
    assert found({"metadata.n": 2**53 + 1}, metadata={"n": 2**53 + 1})
    assert found({"metadata.flag": True}, metadata={"flag": True})
    assert not found({"metadata.flag": True}, metadata={"flag": 1})
    assert found({"metadata.word": {"gt": "a", "lte": "b"}}, metadata={"word": "b"})
    assert found({"metadata.word": ""}, metadata={"word": ""})


@pytest.mark.parametrize(
    "where",
    [
        [], "layer", 1, True, {}, {"and": []}, {"or": []}, {"and": {}}, {"or": {"layer": "fact"}}, {"not": []},
        {"not": {}}, {"and": ["x"]}, {"and": [{}]}, {"not": None}, {"importance": {}}, {"metadata.a": []},
        {"metadata.a": {"in": []}}, {"metadata.a": {"in": "abc"}}, {"unknown": 1}, {"user": "bob"}, {"org": "x"},
        {"user_id": "bob"}, {"content": "x"}, {"metadata": "x"}, {"metadata.": 1}, {"metadata.a.b": 1},
        {"metadata.user_id": "bob"}, {"metadata.__proto__": 1}, {"k') = 'v' OR 1=1 --": 1}, {"metadata.k\n": 1},
        {"$or": [{}]}, {'metadata.k"]': 1}, {"metadata." + "k" * 10_000: 1}, {1: 2}, {None: 1}, {"LAYER": "fact"},
        {"AND": [{"layer": "fact"}]}, {"importance": {"$gte": 0.5}}, {"importance": {"ne": 0.5}},
        {"importance": {"like": "x"}}, {"importance": {1: 1}}, {"importance": "high"}, {"importance": True},
        {"importance": 5}, {"importance": math.nan}, {"importance": None}, {"layer": "past"},
        {"layer": ["fact", "nope"]}, {"layer": {"gt": "a"}}, {"role": "bot"}, {"trust": "most"}, {"id": 5},
        {"session": {"gte": "a"}}, {"session": ""}, {"name": "a\n"}, {"valid_to": None}, {"valid_to": {"exists": 1}},
        {"valid_to": {"exists": "true"}}, {"metadata.a": None}, {"metadata.a": {"eq": [1]}},
        {"metadata.a": {"eq": {}}}, {"metadata.a": [[1]]}, {"metadata.a": [None]}, {"metadata.a": math.inf},
        {"metadata.a": 2**63}, {"metadata.a": "\ud800"}, {"metadata.a": b"x"}, {"metadata.a": {"gt": True}},
        {"metadata.a": {"gt": 1, "lt": "b"}}, {"metadata.a": datetime.now(UTC)},
    ],
)  # fmt: skip
def test_a_filter_outside_the_grammar_is_an_error_and_never_ignored(where: Any) -> None:
    error = refusal(conditions.parse, where)
    assert error.field is not None and error.field.startswith("where")
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "where",
    [
        {"created_at": {"gte": "2026-02-01", "lt": "2026-01-01"}},
        {"event_at": {"gt": FIRST_OF_MARCH, "lte": FIRST_OF_MARCH - 1}},
        {"importance": {"gte": 0.6, "lte": 0.5}},
        {"metadata.a": {"gt": "b", "lt": "a"}},
        {"metadata.a": {"gt": 1, "gte": 5, "lt": 3}},
    ],
)
def test_a_range_that_starts_after_it_ends_is_an_error(where: Any) -> None:
    assert "start after it ends" in refusal(conditions.parse, where).message


def test_a_filter_is_limited_in_depth_and_number_of_tests() -> None:
    where: dict[str, Any] = {"layer": "fact"}
    for _ in range(7):
        where = {"not": where}
    assert conditions.parse(where)
    refusal(conditions.parse, {"not": where})
    circle: dict[str, Any] = {}
    circle["not"] = circle
    refusal(conditions.parse, circle)
    circle = {}
    circle["and"] = [circle] * 100
    refusal(conditions.parse, circle)
    tests = [{"layer": "fact"}] * 64
    assert conditions.parse({"or": tests})
    assert type(refusal(conditions.parse, {"or": [*tests, {"layer": "fact"}]})) is TooLarge
    assert type(refusal(conditions.parse, {f"metadata.k{n}": 1 for n in range(65)})) is TooLarge
    assert conditions.parse({"metadata.a": list(range(100))})
    assert type(refusal(conditions.parse, {"metadata.a": list(range(101))})) is TooLarge
    assert type(refusal(conditions.parse, {"metadata.a": "x" * 1025})) is TooLarge


# ── The whole gate ───────────────────────────────────────────────────────────────────────────────

SECRET = "s3cr3t-zebra"


@pytest.mark.parametrize(
    "call",
    [
        lambda: validate.identifier(SECRET + "\n", "user"),
        lambda: validate.text(SECRET + "\ud800"),
        lambda: validate.text(SECRET * 10_000),
        lambda: validate.role(SECRET),
        lambda: validate.layer(SECRET),
        lambda: contents.content([{"type": SECRET}]),
        lambda: validate.metadata({"a": [SECRET, object()]}),
        lambda: validate.metadata({SECRET + ".": 1}),
        lambda: validate.metadata({"a": SECRET * 10_000}),
        lambda: validate.limit(SECRET),
        lambda: validate.moment(SECRET, "t"),
        lambda: conditions.parse({"colour": SECRET}),
        lambda: conditions.parse({"layer": SECRET}),
        lambda: conditions.parse({"layer": {SECRET: 1}}),
        lambda: json_text.parse(f'{{"{SECRET}": {SECRET}}}', "body"),
        lambda: json_text.parse(f'{{"{SECRET}": 1, "{SECRET}": 1}}', "body"),
        lambda: json_text.parse(SECRET.encode() + b"\xff", "body"),
    ],
)
def test_no_error_repeats_what_was_sent(call: Any) -> None:
    error = refusal(call)
    assert SECRET not in f"{error!s} {error!r} {error.args} {vars(error)}"


def test_an_unknown_filter_key_is_named_with_what_was_probably_meant() -> None:
    assert "unknown key topic; for a label of your own use metadata.topic" in str(
        refusal(conditions.parse, {"topic": 1})
    )
    assert "unknown key 'a\\u202eb c'" in str(refusal(conditions.parse, {"a\u202eb c": 1}))
    assert "metadata.user" not in str(refusal(conditions.parse, {"user": "ann"}))


@pytest.mark.parametrize(
    ("check", "args"),
    [
        (validate.text, ("(" * 65_000,)),
        (validate.identifier, ("a\u200d" * 64, "user")),
        (validate.moment, ("2026-03-01T" + "0" * 100_000, "t")),
        (conditions.parse, ({"created_at": "-" + "9" * 100_000},)),
        (conditions.parse, ({"metadata." + "a" * 100_000: 1},)),
        (validate.metadata, ({"a-" * 50_000: 1},)),
        (json_text.parse, ('"' + '\\"' * 50_000, "body")),
        (json_text.parse, ("[" * 100_000, "body")),
        (json_text.parse, ("[" + "1" * 100_000 + "]", "body")),
    ],
)
def test_hostile_strings_take_little_time(check: Any, args: tuple[Any, ...]) -> None:
    start = time.process_time()
    try:
        check(*args)
    except ValidationError:
        pass
    assert time.process_time() - start < 0.05


def test_a_usual_value_passes_in_about_a_microsecond() -> None:
    def least_us(call: Any) -> float:
        times = []
        for _ in range(20):
            start = time.process_time()
            for _ in range(100):
                call()
            times.append(time.process_time() - start)
        return min(times) / 100 * 1e6

    # Generous by five to ten times, for slow and busy machines.
    labels = {"topic": "work", "stars": 4, "done": True}
    assert least_us(lambda: validate.identifier("user_456", "user")) < 2
    assert least_us(lambda: validate.text("I write Python and I like dark mode.")) < 2
    assert least_us(lambda: validate.metadata(labels)) < 25


# ── The page ─────────────────────────────────────────────────────────────────────────────────────


def numbers_of_the_page() -> dict[str, int]:
    rows = re.findall(r"^\| `(\w+)` \| (-?[\d,]+)", PAGE, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def test_the_page_lists_every_limit_with_its_number() -> None:
    numbers = numbers_of_the_page()
    stores = {"OPERATIONS_MAX": contract.OPERATIONS_MAX, "PAYLOAD_MAX_BYTES": contract.PAYLOAD_MAX_BYTES}
    assert numbers == asdict(LIMITS) | stores


def test_the_limits_are_as_promised() -> None:
    promised = {"text_bytes": 65_536, "metadata_bytes": 16_384, "metadata_depth": 8, "batch_items": 90}
    promised |= {"limit_max": 1_000, "id_chars": 128, "body_bytes": 1_048_576}
    assert promised.items() <= asdict(LIMITS).items()
    assert LIMITS.metadata_key_chars == len("k" * 64) and not filters.METADATA_KEY.match("k" * 65)
    assert LIMITS.batch_items < contract.OPERATIONS_MAX


def test_the_page_names_every_reserved_key_filter_field_and_operator() -> None:
    for name in (*validate.RESERVED_METADATA, *filters.FIELDS, *filters.OPERATORS, *validate.ROLES):
        assert f"`{name}`" in PAGE, name


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "limits.md", "docs/limits.md", 0)
    assert len(example.examples) > 20
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


@pytest.mark.parametrize(("module", "examples"), [(validate, 6), (conditions, 1), (json_text, 1)])
def test_the_examples_of_the_module_run(module: ModuleType, examples: int) -> None:
    assert doctest.testmod(module) == (0, examples)
