"""Bad inputs on the Python surface: the stated typed error, the field, and nothing else happens.

Each case is one row: what is called, the error it must raise, and the field that the error must name.
After every one of them nothing was stored, another user's data is as it was, the store works, and no
content stands in the error or in the logs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from datetime import datetime
from decimal import Decimal

import pytest

from recollect import Memory
from recollect.errors import Conflict, Corrupt, NotFound, RecollectError, TooLarge, Unavailable, ValidationError
from recollect.policies.words import terms
from recollect.validate import LIMITS

SECRET = "zebracanary"
TEXT_MAX = LIMITS.text_bytes


def nested(depth):
    value = SECRET
    for _ in range(depth):
        value = {"a": value}
    return value


def circular():
    value = {"secret": SECRET}
    value["self"] = value
    return value


class Scene:
    """The handles that a row may use, with something of Ann's and something of Bob's in place."""

    def __init__(self, memory):
        self.memory = memory
        self.ann, self.bob = memory.user("ann"), memory.user("bob")
        self.chat = self.ann.session("s")

    async def prepare(self):
        self.mine = await self.ann.add_memory("something of Ann's own", id="mine")
        self.said = await self.chat.add_message("user", "something Ann said", id="said")
        self.foreign = await self.bob.add_memory(f"something of Bob's {SECRET}", id="foreign")
        await self.bob.session("b").add_message("user", f"Bob said {SECRET}", id="theirs")
        await self.memory.work()
        return self

    async def state(self):
        return (await self.ann.export())[1:], (await self.bob.export())[1:], await self.memory.survey()


def content_cases():
    wrong = {
        "empty": "", "spaces": " \t\n ", "None": None, "int": 5, "list": [SECRET], "dict": {"text": SECRET},
        "bytes": SECRET.encode(), "float": 1.5, "surrogate": f"{SECRET}\ud800", "low surrogate": "\udfff",
    }  # fmt: skip
    for name, value in wrong.items():
        yield f"A content {name} message", lambda s, v=value: s.chat.add_message("user", v), ValidationError, "content"
        yield f"A content {name} pair", lambda s, v=value: s.chat.add_interaction("fine", v), ValidationError, "content"
        yield f"A content {name} memory", lambda s, v=value: s.ann.add_memory(v), ValidationError, "content"
        yield f"A content {name} query", lambda s, v=value: s.ann.search_memory(v), ValidationError, "query"
        yield f"A content {name} context", lambda s, v=value: s.chat.get_context(v), ValidationError, "query"
        if value is not None:
            call = lambda s, v=value: s.ann.update_memory("mine", content=v)  # noqa: E731
            yield f"A content {name} update", call, ValidationError, "content"
    for name, text in {
        "ascii": "x" * (TEXT_MAX + 1),
        "wide": "é" * (TEXT_MAX // 2) + "x",
        "huge": "x" * 10_000_000,
    }.items():
        yield f"A8 {name} message", lambda s, t=text: s.chat.add_message("user", t), TooLarge, "content"
        yield f"A8 {name} memory", lambda s, t=text: s.ann.add_memory(t), TooLarge, "content"
        yield f"A8 {name} query", lambda s, t=text: s.ann.search_memory(t), TooLarge, "query"
    yield (
        "A9 parts",
        lambda s: s.chat.add_message("user", [{"type": "text", "text": "x" * 70_000}]),
        TooLarge,
        "content",
    )
    whole = [{"role": "user", "content": "x" * 60_000}] * 90
    yield "A9 batch", lambda s: s.chat.add_messages(whole), TooLarge, "changes"
    for parts in (
        [],
        [5],
        [{}],
        [{"type": "video"}],
        [{"type": "text"}],
        [{"type": "text", "text": 5}],
        [{"type": "image_url"}],
    ):
        yield f"A parts {parts}", lambda s, p=parts: s.chat.add_message("user", p), ValidationError, "content"


def message_cases():
    for role in ("", "boss", None, 5, "USER", ["user"]):
        yield f"role {role}", lambda s, r=role: s.chat.add_message(r, SECRET), ValidationError, "role"
    for calls in (5, [5], [{}], [{"id": ""}], [{"id": "a"}, {"id": "a"}], {"id": "a"}):
        call = lambda s, c=calls: s.chat.add_message("assistant", SECRET, tool_calls=c)  # noqa: E731
        yield f"tool calls {calls}", call, ValidationError, "tool_calls"
    call = lambda s: s.chat.add_message("user", SECRET, tool_calls=[{"id": "a"}])  # noqa: E731
    yield "tool calls of a user", call, ValidationError, "tool_calls"
    yield (
        "answer of a user",
        lambda s: s.chat.add_message("user", SECRET, tool_call_id="a"),
        ValidationError,
        "tool_call_id",
    )
    for when in (
        "yesterday",
        "2026-13-01",
        "2026-01-01T00:00:00",
        datetime(2026, 1, 1),
        1.5,
        True,
        10**18,
        "0000-01-01",
        [1],
    ):
        call = lambda s, w=when: s.chat.add_message("user", SECRET, created_at=w)  # noqa: E731
        yield f"D11 created_at {when!r}", call, ValidationError, "created_at"
    for items in (5, None, "text", [], [5], [None], [["user", "x"]], [{"role": "user"}], [{1: 2}]):
        yield f"batch {items}", lambda s, i=items: s.chat.add_messages(i), ValidationError, ""
        yield f"memories {items}", lambda s, i=items: s.ann.add_memories(i), ValidationError, ""
    for name in ("", " ", 5, "a\nb", "x" * 129):
        yield (
            f"name {name!r:.20}",
            lambda s, n=name: s.chat.add_message("user", SECRET, name=n),
            ValidationError,
            "name",
        )
    twice = [{"role": "user", "content": SECRET, "id": "m1"}] * 2
    yield "one id twice in a batch", lambda s: s.chat.add_messages(twice), ValidationError, "changes"


def metadata_cases():
    wrong = {
        "B1 NaN": {"a": math.nan}, "B1 infinity": {"a": -math.inf}, "B2 2**63": {"a": 2**63},
        "B2 2**70": {"a": [2**70]},
        "B3 1e400": {"a": float("1e400")}, "B4 depth 9": nested(9), "B4 depth 1000": nested(1000),
        "B4 depth 100000": nested(100_000), "B7 empty": {"": 1}, "B7 dot": {"a.b": 1}, "B7 dollar": {"$a": 1},
        "B7 quote": {'a"b': 1}, "B7 newline": {"a\nb": 1}, "B7 NUL": {"a\x00": 1}, "B7 long": {"k" * 10_000: 1},
        "B7 proto": {"__proto__": 1}, "B7 constructor": {"constructor": 1}, "B7 int key": {1: 1},
        "B9 datetime": {"a": datetime(2026, 1, 1)}, "B9 set": {"a": {1}}, "B9 bytes": {"a": b"x"},
        "B9 Decimal": {"a": Decimal(1)}, "B9 object": {"a": object()}, "B10 circular": circular(),
        "B list": [SECRET], "B text": SECRET, "B surrogate": {"a": f"{SECRET}\ud800"},
    }  # fmt: skip
    wrong |= {f"B8 {name}": {name: SECRET} for name in ("user_id", "org_id", "id", "hash", "created_at", "embedding")}
    large = {
        "B5 65 keys": {f"k{n}": n for n in range(65)},
        "B5 100000 keys": {f"k{n}": n for n in range(100_000)},
        "B size": {"a": SECRET * 2000},
    }
    for name, value in (wrong | large).items():
        error = TooLarge if name in large else ValidationError
        yield f"{name} message", lambda s, v=value: s.chat.add_message("user", "x", metadata=v), error, "metadata"
        yield f"{name} memory", lambda s, v=value: s.ann.add_memory("x", metadata=v), error, "metadata"
        yield f"{name} update", lambda s, v=value: s.ann.update_memory("mine", metadata=v), error, "metadata"
    named = lambda s: s.ann.add_memory("x", metadata={"outer": {"inner": {1, 2}}})  # noqa: E731
    yield "B9 names the key", named, ValidationError, "metadata.outer.inner"
    for value in (-0.1, 1.1, math.nan, "high", True, None.__class__):
        yield (
            f"importance {value}",
            lambda s, v=value: s.ann.add_memory(SECRET, importance=v),
            ValidationError,
            "importance",
        )
        yield (
            f"confidence {value}",
            lambda s, v=value: s.ann.add_memory(SECRET, confidence=v),
            ValidationError,
            "confidence",
        )


def id_cases():
    wrong = ("", " ", "\t", None, True, 0, 1.5, [SECRET], {"$ne": ""}, {"$in": ["ann"]}, {"ne": 1}, "a\x00b", "a\nb",
             "a\r\nb", "{tag}", "x" * 129, "x" * 1_000_000, "a\ud800", b"ann")  # fmt: skip
    for value in wrong:
        name = f"{value!r:.20}"
        yield f"C user {name}", lambda s, v=value: later(s.memory.user, v), ValidationError, "user"
        yield f"C org {name}", lambda s, v=value: later(s.memory.user, "ann", org=v), ValidationError, "org"
        yield f"C session {name}", lambda s, v=value: later(s.ann.session, v), ValidationError, "session"
        yield f"C get {name}", lambda s, v=value: s.ann.get_memory(v), ValidationError, "id"
        yield f"C history {name}", lambda s, v=value: s.ann.history(v), ValidationError, "id"
        yield f"C restore {name}", lambda s, v=value: s.ann.restore(v), ValidationError, "id"
        yield f"C retry {name}", lambda s, v=value: s.ann.retry(v), ValidationError, "failure_id"
        yield f"C branch {name}", lambda s, v=value: s.chat.branch("said", v), ValidationError, "into"
        if value is not None:
            yield f"C forget {name}", lambda s, v=value: s.ann.forget([v]), ValidationError, "ids"
            yield f"C id {name}", lambda s, v=value: s.ann.add_memory(SECRET, id=v), ValidationError, "id"
            yield (
                f"C message id {name}",
                lambda s, v=value: s.chat.add_message("user", SECRET, id=v),
                ValidationError,
                "id",
            )
            call = lambda s, v=value: s.chat.add_message("user", SECRET, idempotency_key=v)  # noqa: E731
            yield f"C key {name}", call, ValidationError, "idempotency_key"
        if value:
            yield f"C agent {name}", lambda s, v=value: later(s.ann.session, "s", agent=v), ValidationError, "agent"
    for id in ("foreign", "theirs", "unknown", "*", "%"):
        yield f"C7 get {id}", lambda s, i=id: s.ann.get_memory(i), NotFound, "id"
        yield f"C7 update {id}", lambda s, i=id: s.ann.update_memory(i, content=SECRET), NotFound, "id"
        yield f"C7 history {id}", lambda s, i=id: s.ann.history(i), NotFound, "id"
        yield f"C7 forget {id}", lambda s, i=id: s.ann.forget(i), NotFound, "id"
        yield f"C7 forget with one's own {id}", lambda s, i=id: s.ann.forget(["mine", i]), NotFound, "id"
        yield f"C7 restore {id}", lambda s, i=id: s.ann.restore(i), NotFound, "id"
        yield f"C7 retry {id}", lambda s, i=id: s.ann.retry(i), NotFound, "failure_id"
        yield f"C7 branch {id}", lambda s, i=id: s.chat.branch(i, "other"), NotFound, "message_id"
    yield "F11 taken id", lambda s: s.chat.add_message("user", SECRET, id="said"), Conflict, "id"
    yield "C11 taken id elsewhere", lambda s: s.ann.session("t").add_message("user", SECRET, id="said"), Conflict, "id"
    yield "taken memory id", lambda s: s.ann.add_memory(SECRET, id="mine"), Conflict, "id"


async def later(call, *given, **named):
    return call(*given, **named)


def query_cases():
    for limit in (0, -1, 1.5, "3", True, 1001, 2**31, 2**63, 2**70, None, [5]):
        yield f"D7 search {limit}", lambda s, n=limit: s.ann.search_memory("x", limit=n), ValidationError, "limit"
        yield f"D7 list {limit}", lambda s, n=limit: s.ann.list_memories(limit=n), ValidationError, "limit"
        yield f"D7 messages {limit}", lambda s, n=limit: s.chat.messages(limit=n), ValidationError, "limit"
        yield f"D7 sessions {limit}", lambda s, n=limit: s.ann.sessions(limit=n), ValidationError, "limit"
    for budget in (0, -1, 1.5, "3", True, 10**9, None):
        yield (
            f"budget {budget}",
            lambda s, n=budget: s.chat.get_context("x", max_tokens=n),
            ValidationError,
            "max_tokens",
        )
    for cursor in ("nonsense", "", 5, b"x", "\u00e9", "AAAA", "MS4xLmFiY2RlZg=="):
        yield f"C13 list {cursor!r}", lambda s, c=cursor: s.ann.list_memories(after=c), ValidationError, "after"
        yield f"C13 messages {cursor!r}", lambda s, c=cursor: s.chat.messages(after=c), ValidationError, "after"
    filters = (
        5, "layer", [], {}, {"owner": 1}, {"user": "bob"}, {"metadata": {"a": 1}}, {"metadata.": 1},
        {"$or": []}, {"or": []},
        {"or": {}}, {"and": [5]}, {"not": []}, {"metadata.k') = 'v' OR 1=1 --": 1},
        {"metadata.k\n": 1}, {'metadata.k"]': 1},
        {"metadata." + "k" * 10_000: 1}, {"metadata.a": {"like": "%"}}, {"metadata.a": {"$gt": 1}}, {"metadata.a": {}},
        {"metadata.a": None}, {"metadata.a": math.nan}, {"metadata.a": {"in": []}}, {"metadata.a": {"exists": "yes"}},
        {"role": {"gt": "a"}}, {"layer": "session"}, {"importance": "high"}, {"created_at": {"gt": "year 0"}},
        {"created_at": {"gt": "2026-01-01T00:00:00"}}, {"created_at": {"gt": "2026-02-01", "lt": "2026-01-01"}},
        {"event_at": {"gte": "0000-01-01"}}, {"created_at": {"lt": "2026-06-30T23:59:60Z"}}, {1: 2},
    )  # fmt: skip
    for where in filters:
        yield f"D6 search {where!r:.60}", lambda s, w=where: s.ann.search_memory("x", where=w), ValidationError, "where"
        yield f"D6 list {where!r:.60}", lambda s, w=where: s.ann.list_memories(where=w), ValidationError, "where"
        yield f"D6 forget {where!r:.60}", lambda s, w=where: s.ann.forget(where=w), ValidationError, "where"
    deep = {"layer": "fact"}
    for _ in range(5000):
        deep = {"not": deep}
    yield "D6 deep", lambda s: s.ann.search_memory("x", where=deep), ValidationError, "where"
    wide = {"or": [{"metadata.a": n} for n in range(65)]}
    yield "D6 wide", lambda s: s.ann.search_memory("x", where=wide), TooLarge, "where"
    for layer in ("session", "past", "failure", "LONG_TERM", "", 5, [], ["long_term", 5], {"long_term"}):
        yield f"layer search {layer}", lambda s, x=layer: s.ann.search_memory("x", layer=x), ValidationError, "layer"
        yield f"layers context {layer}", lambda s, x=layer: s.chat.get_context("x", layers=x), ValidationError, "layer"
    for layer in ("session", "conversation", "fact", "", 5, None):
        yield f"layer add {layer}", lambda s, x=layer: s.ann.add_memory(SECRET, layer=x), ValidationError, "layer"
    for layer in ("session", "", 5, None):
        yield f"layer list {layer}", lambda s, x=layer: s.ann.list_memories(layer=x), ValidationError, "layer"
    for layer in ("working", "customization"):
        yield f"not searched {layer}", lambda s, x=layer: s.ann.search_memory("x", layer=x), ValidationError, "layer"
    yield "quality", lambda s: s.ann.search_memory("x", quality="perfect"), ValidationError, "quality"
    yield "at", lambda s: s.ann.search_memory("x", at="noon"), ValidationError, "at"
    yield "update of nothing", lambda s: s.ann.update_memory("mine"), ValidationError, "content"
    yield "update of a message", lambda s: s.ann.update_memory("said", content=SECRET), ValidationError, "layer"
    yield "D9 large query", lambda s: s.ann.search_memory(f"{SECRET} " * 100_000), TooLarge, "query"
    yield "title", lambda s: s.chat.rename(" "), ValidationError, "title"


CASES = [*content_cases(), *message_cases(), *metadata_cases(), *id_cases(), *query_cases()]


@pytest.fixture
async def scene(memory):
    return await Scene(memory).prepare()


def test_there_are_enough_cases():
    assert len(CASES) > 700


async def test_every_bad_input_is_refused_by_name_and_changes_nothing(scene, caplog):
    caplog.set_level(logging.DEBUG, logger="recollect")
    before = await scene.state()
    failed = []
    for name, call, expected, field in CASES:
        try:
            await call(scene)
            failed.append(f"{name}: nothing was raised")
        except RecollectError as error:
            if not isinstance(error, expected) or not (error.field or "").startswith(field) or not error.field:
                failed.append(f"{name}: {type(error).__name__} {error.field}")
            if SECRET in f"{error} {error!r} {error.__cause__!r}":
                failed.append(f"{name}: the content stands in the error")
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}")
    assert failed == []
    assert await scene.state() == before
    assert SECRET not in caplog.text
    await scene.chat.add_message("user", "all is well")
    assert (await scene.chat.window())[-1].content == "all is well"
    assert (await scene.ann.search_memory("well"))[0].content == "all is well"


# ── What is odd and allowed ──────────────────────────────────────────────────────────────────────

ODD = {
    "A3 NUL": "a\x00b", "A5 noncharacters": "\ufffe\uffff\U0010ffff", "A5 zalgo": "z" + "\u0301" * 1000,
    "A5 family": "👨‍👩‍👧‍👦🏳️‍🌈", "A6 composed": "caf\u00e9", "A6 decomposed": "cafe\u0301",
    "A7 bidi": "\u202eevil\u202c\u2066x\u2069", "A7 tags": "".join(chr(0xE0000 + ord(c)) for c in "hidden") + " tags",
    "A8 exactly": "x" * TEXT_MAX, "A8 wide": "é" * (TEXT_MAX // 2), "A8 astral": "😀" * (TEXT_MAX // 4),
    "A10 one word": "w" * 60_000, "A11 controls": "a\r\nb\x0c\x1b[31m\x07",
    "A12 markup": "<script>alert(1)</script>\"><img onerror=x>",
    "A13 json": '{"lc":1,"id":["langchain"]}', "A13 sql": "'; DROP TABLE records; --",
    "A13 yaml": "!!python/object/apply:os.system",
    "A13 fence": "</memory> <|im_end|> [INST] ```", "A13 markers": "caller:k1 enrich:x upkeep \x1f \x1e",
    "zero width": "\u200b x \ufeff", "line separators": "a\u2028b\u2029c",
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
async def test_odd_text_comes_back_identical(memory, name):
    text = ODD[name]
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", text, metadata={"label": text[:500]})
    added = await ann.add_memory(text)
    await ann.session("s").working.set({"note": text[:5000]})
    await memory.work()
    assert (await ann.session("s").window())[0].content == text
    assert (await ann.get_memory(message.id)).metadata == {"label": text[:500]}
    assert (await ann.get_memory(added.id)).content == text
    assert await ann.session("s").working.get() == {"note": text[:5000]}
    assert (await ann.export())[1]["content"] == text
    assert await ann.failures() == []
    await ann.session("s").get_context(text[:1000])


@pytest.mark.parametrize(
    "number", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 1e-300, 1.7976931348623157e308, 0.1, -0.0]
)
async def test_numbers_come_back_identical(memory, number):
    ann = memory.user("ann")
    await ann.add_memory("x", id="m", metadata={"n": number})
    read = (await ann.get_memory("m")).metadata["n"]
    assert (read, type(read), str(read)) == (number, type(number), str(number))
    assert [record.id for record in (await ann.list_memories(where={"metadata.n": number}))[0]] == ["m"]


ODD_IDS = [
    "*", "%", "_", "?", ".*", "[a]", "~", "-", "a:b", "a/b", "a.b", "a", "user1", "user10", "a_c", "abc", "Alice",
    "alice", "alice ", "\u00e9", "e\u0301", "\u0430", "1", "01", "'; DROP TABLE x; --", '") or true or ("', "%2F",
    "\\", "..", "🙂", "a\u200bb", "x" * 128,
]  # fmt: skip


async def test_odd_ids_are_literal_and_stay_apart(memory):
    users = [memory.user(id) for id in ODD_IDS] + [memory.user("c", org="a:b"), memory.user("b:c", org="a")]
    for number, user in enumerate(users):
        await user.session(user.id).add_message("user", f"word{number}x", id=user.id)
        await user.add_memory(f"word{number}y")
        await user.session(user.id).working.set({"n": number})
    await memory.work()
    for number, user in enumerate(users):
        assert [message.content for message in await user.session(user.id).window()] == [f"word{number}x"]
        assert [record.content for record in (await user.list_memories())[0]] == [f"word{number}y"]
        assert await user.session(user.id).working.get() == {"n": number}
        assert {hit.content for hit in await user.search_memory("word")} <= {f"word{number}x", f"word{number}y"}
        assert [info.id for info in await user.sessions()] == [user.id]
    for user in users[:8]:
        await user.erase()
    for number, user in enumerate(users):
        assert len(await user.session(user.id).window()) == (0 if number < 8 else 1)


async def test_odd_sessions_of_one_user_stay_apart(memory):
    ann = memory.user("ann")
    for number, id in enumerate(ODD_IDS):
        await ann.session(id).add_message("user", f"number {number}")
    for number, id in enumerate(ODD_IDS):
        assert [message.content for message in await ann.session(id).window()] == [f"number {number}"]
    await ann.session("*").delete()
    assert len(await ann.sessions()) == len(ODD_IDS) - 1


async def test_a_filter_cannot_widen_the_scope(scene):
    wide = {"or": [{"layer": "long_term"}, {"not": {"layer": "long_term"}}]}
    found = await scene.ann.search_memory(SECRET, where=wide, limit=1000)
    assert SECRET not in str(found)
    listed, _ = await scene.ann.list_memories(where={"or": [{"id": "foreign"}, {"id": "mine"}]})
    assert [record.id for record in listed] == ["mine"]
    await scene.ann.forget(where=wide)
    assert (await scene.bob.get_memory("foreign")).id == "foreign"


async def test_a_cursor_holds_for_its_own_list_and_owner_alone(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    for user in (ann, bob):
        await user.add_memories([f"number {n}" for n in range(10)])
        await user.session("s").add_messages([{"role": "user", "content": f"number {n}"} for n in range(10)])
    _, cursor = await ann.list_memories(limit=3)
    for call in (
        bob.list_memories(limit=3, after=cursor),
        ann.list_memories(limit=3, where={"metadata.a": 1}, after=cursor),
        ann.list_memories(layer="episodic", after=cursor),
        ann.session("s").messages(after=cursor),
        ann.list_memories(limit=3, after=cursor[:-2] + "A="),
    ):
        with pytest.raises(ValidationError) as caught:
            await call
        assert caught.value.field == "after"
    page, _ = await ann.list_memories(limit=3, after=cursor)
    assert [record.content for record in page] == ["number 3", "number 4", "number 5"]


async def test_many_questions_of_two_users_at_once_never_mix(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    await ann.add_memory("the apple of Ann")
    await bob.add_memory("the apple of Bob")
    await memory.work()

    async def ask(user, name):
        return all(hit.content.endswith(name) for hit in await user.search_memory("the apple"))

    assert all(await asyncio.gather(*(ask(*who) for _ in range(300) for who in ((ann, "Ann"), (bob, "Bob")))))


HOSTILE = [
    "(" * 50_000, "a" * 60_000, "1 " * 30_000, ". " * 30_000, "-" * 60_000, "I'm " * 15_000, "http://" * 8_000,
    "\n" * 60_000 + "x", "e\u0301" * 20_000, "a1" * 30_000,
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_text_takes_no_time(memory, hostile):
    """A regular expression that backtracks would take minutes here; ten seconds is generous on a busy machine."""
    async with asyncio.timeout(10):
        terms(hostile, "en")
        ann = memory.user("ann")
        await ann.session("s").add_message("user", hostile)
        await ann.add_memory(hostile)
        await memory.work()
        await ann.session("s").compress()
        await ann.session("s").get_context(hostile[-60_000:], max_tokens=500)


# ── Time and life of the file ────────────────────────────────────────────────────────────────────


async def test_a_clock_that_jumps_keeps_order_ids_and_expiry(memory, clock):
    chat = memory.user("ann").session("s")
    steps = [0, -1, 24 * 20, -24 * 10, 1]
    for number, hours in enumerate(steps):
        clock.advance(hours=hours)
        await chat.add_message("user", f"number {number}")
        await memory.work()
    assert [message.content for message in await chat.window()] == [f"number {n}" for n in range(5)]
    clock.advance(days=3650)
    assert await chat.window() == []


async def test_delete_while_listing_and_delete_twice(memory):
    ann = memory.user("ann")
    added = await ann.add_memories([f"number {n}" for n in range(30)])
    _, after = await ann.list_memories(limit=10)
    await ann.forget([record.id for record in added[5:15]])
    rest, after = await ann.list_memories(limit=1000, after=after)
    assert [record.content for record in rest] == [f"number {n}" for n in range(15, 30)]
    assert after is None
    with pytest.raises(NotFound):
        await ann.forget(added[5].id)
    with pytest.raises(NotFound):
        await ann.update_memory(added[5].id, content="back again")


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "m.db"
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").add_memory("kept")
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 9999")
    db.close()
    before = path.read_bytes()
    with pytest.raises(RecollectError):
        await Memory.open(path).start()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at " * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
async def test_a_file_that_is_no_database_is_left_alone(tmp_path, content):
    path = tmp_path / "m.db"
    path.write_bytes(content)
    with pytest.raises((Corrupt, ValidationError, Unavailable)):
        async with Memory.open(path, worker=False) as memory:
            await memory.user("ann").add_memory("text")
    assert path.read_bytes() == content


async def test_a_file_opened_for_reading_is_read_and_not_written(tmp_path):
    path = tmp_path / "m.db"
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").session("s").add_message("user", "kept here")
    async with Memory.open(f"sqlite:///{path}?mode=ro", worker=False) as memory:
        ann = memory.user("ann")
        assert [message.content for message in await ann.session("s").window()] == ["kept here"]
        assert (await ann.search_memory("kept"))[0].content == "kept here"
        for call in (ann.add_memory("more"), ann.session("s").working.set({"a": 1}), ann.erase()):
            with pytest.raises(Unavailable):
                await call


@pytest.mark.parametrize("name", ["with space.db", "größe-帆.db", "what?.db", "a#b.db", "50%.db", "%41.db"])
async def test_a_file_may_have_an_odd_name(tmp_path, name):
    path = tmp_path / name
    async with Memory.open(path, worker=False) as memory:
        await memory.user("ann").add_memory("kept")
    assert path.exists()
    async with Memory.open(path, worker=False) as memory:
        assert len((await memory.user("ann").list_memories())[0]) == 1


@pytest.mark.parametrize(
    "url", ["sqlite:///" + "x" * 5000, "sqlite:///a\x00b.db", "sqlite:////no/such/folder/at/all/m.db"]
)
async def test_a_path_that_cannot_be_is_refused(url):
    with pytest.raises(RecollectError):
        await Memory.open(url, worker=False).start()


@pytest.mark.parametrize(
    ("item", "field", "told"),
    [
        ({"role": "user", "content": "x", "colour": "canary"}, "messages", "unknown field 'colour'"),
        ({"role": "user"}, "content", "must be given"),
        ({"content": "canary"}, "role", "must be given"),
        (5, "messages", "named fields"),
    ],
)
async def test_what_is_wrong_with_one_of_several_is_told_by_its_name(memory, item, field, told):
    with pytest.raises(ValidationError, match=told) as refused:
        await memory.user("ann").session("s").add_messages([{"role": "user", "content": "fine"}, item])
    assert refused.value.field == field
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("item", "field", "told"),
    [
        ({"key": "city"}, "value", "must be given"),
        ({"value": "canary"}, "key", "must be given"),
        ({"key": "city", "value": "canary", "colour": 1}, "items", "unknown field 'colour'"),
    ],
)
async def test_what_is_wrong_with_a_fact_is_told_by_its_name(memory, item, field, told):
    with pytest.raises(ValidationError, match=told) as refused:
        await memory.user("ann").upsert_facts([item])
    assert refused.value.field == field
    assert "canary" not in str(refused.value)
