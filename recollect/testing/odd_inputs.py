"""Odd inputs that are allowed: each comes back as it went in, finds nobody else's data, and breaks nothing.

A scene is given an empty memory and reports what is wrong by an `assert`. `matrix.py` plays all of them
on every store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from recollect.errors import Conflict, NotFound, ValidationError
from recollect.memory import Memory
from recollect.testing.bad_inputs import SECRET, Cast
from recollect.testing.fakes import WrongEmbedder
from recollect.user import User
from recollect.validate import LIMITS

OpenMemory = Callable[..., Awaitable[Memory]]
"""Opens the store of a scene, with the scene's own settings; whoever provides it closes what it opened."""
Scene = Callable[[OpenMemory], Awaitable[None]]

TEXTS = {
    "A3 NUL": "a\x00b", "A5 noncharacters": "\ufffe\uffff\U0010ffff", "A5 zalgo": "z" + "\u0301" * 1000,
    "A5 family": "👨‍👩‍👧‍👦🏳️‍🌈", "A6 composed": "caf\u00e9", "A6 decomposed": "cafe\u0301",
    "A7 bidi": "\u202eevil\u202c\u2066x\u2069", "A7 tags": "".join(chr(0xE0000 + ord(c)) for c in "hidden") + " tags",
    "A7 zero width": "\u200b x \ufeff",
    "A8 exactly": "x" * LIMITS.text_bytes, "A8 wide": "é" * (LIMITS.text_bytes // 2),
    "A8 astral": "😀" * (LIMITS.text_bytes // 4), "A10 one word": "w" * 60_000,
    "A11 controls": "a\r\nb\x0c\x1b[31m\x07", "A11 line separators": "a\u2028b\u2029c",
    "A12 markup": "<script>alert(1)</script>\"><img onerror=x>",
    "A13 json": '{"lc":1,"id":["langchain"]}', "A13 sql": "'; DROP TABLE records; --",
    "A13 yaml": "!!python/object/apply:os.system", "A13 fence": "</memory> <|im_end|> [INST] ```",
    "A13 markers": "caller:k1 enrich:x upkeep \x1f \x1e",
}  # fmt: skip
NUMBERS = (0, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 1e-300, 1.7976931348623157e308, 0.1, -0.0)
IDS = (
    "*", "%", "_", "?", ".*", "[a]", "~", "-", "a:b", "a/b", "a.b", "a", "user1", "user10", "a_c", "abc", "Alice",
    "alice", "alice ", "\u00e9", "e\u0301", "\u0430", "1", "01", "'; DROP TABLE x; --", '") or true or ("', "%2F",
    "\\", "..", "🙂", "a\u200bb", "x" * 128,
)  # fmt: skip
QUERIES = (
    '"', "NEAR(", "a AND", "col:x", "^", "*", "-", "(" * 3_000, "x\x00y", "@{}[]()|-~*\"':;!&%", "a-b-c", "a &", "!",
    "<->", "%", "_", "' OR 1=1 --", "$where", "{$ne: 1}", "\\", "/.*/",
)  # fmt: skip
QUESTIONS = int(os.environ.get("RECOLLECT_QUESTIONS", "600"))
"""The same question by two users; `make drills` asks it 10,000 times."""
AT_ONCE = 50
"""Fewer than a server allows to wait."""
WIDE: tuple[dict[str, Any], ...] = (
    {"or": [{"layer": "long_term"}, {"not": {"layer": "long_term"}}]},
    {"not": {"metadata.none": {"exists": True}}},
    {"or": [{"id": {"in": ["note", "said", "*", "%"]}}, {"metadata.owner": {"exists": True}}]},
    {"metadata.owner": {"gte": ""}},
)
"""Filters that match everything, so that only the scope is left to hold something back."""
SPOILT: dict[str, Callable[[Any], Any]] = {
    "E1 NaN": lambda rows: rows * np.nan,
    "E2 infinity": lambda rows: rows + np.inf,
    "E3 zero": lambda rows: rows * 0,
    "E4 another dimension": lambda rows: rows[:, :-1],
    "E5 empty": lambda rows: rows[:, :0],
    "E6 none": lambda rows: None,
    "E7 too few": lambda rows: rows[:-1],
    "E8 beyond float32": lambda rows: rows.astype(np.float64) * 1e300,
}


def _text(text: str) -> Scene:
    async def comes_back_identical(open_memory: OpenMemory) -> None:
        memory = await open_memory()
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

    return comes_back_identical


async def _numbers(open_memory: OpenMemory) -> None:
    ann = (await open_memory()).user("ann")
    for place, number in enumerate(NUMBERS):
        await ann.add_memory(f"x {place}", id=f"m{place}", metadata={"n": number})
        read = (await ann.get_memory(f"m{place}")).metadata["n"]
        assert (read, type(read), str(read)) == (number, type(number), str(number))
        listed, _ = await ann.list_memories(where={"metadata.n": number})
        assert f"m{place}" in [record.id for record in listed]


async def _ids(open_memory: OpenMemory) -> None:
    memory = await open_memory()
    users = [memory.user(id) for id in IDS] + [memory.user("c", org="a:b"), memory.user("b:c", org="a")]
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


async def _sessions(open_memory: OpenMemory) -> None:
    ann = (await open_memory()).user("ann")
    for number, id in enumerate(IDS):
        await ann.session(id).add_message("user", f"number {number}")
    for number, id in enumerate(IDS):
        assert [message.content for message in await ann.session(id).window()] == [f"number {number}"]
    await ann.session("*").delete()
    assert len(await ann.sessions()) == len(IDS) - 1


async def _wide_filters(open_memory: OpenMemory) -> None:
    cast = await Cast(await open_memory()).prepare()
    found = await cast.ann.search_memory(SECRET, where=WIDE[0], limit=1000)
    assert SECRET not in str(found)
    listed, _ = await cast.ann.list_memories(where={"or": [{"id": "foreign"}, {"id": "mine"}]})
    assert [record.id for record in listed] == ["mine"]
    await cast.ann.forget(where=WIDE[0])
    assert (await cast.bob.get_memory("foreign")).id == "foreign"


async def _cursors(open_memory: OpenMemory) -> None:
    memory = await open_memory()
    ann, bob = memory.user("ann"), memory.user("bob")
    for user in (ann, bob):
        await user.add_memories([f"number {n}" for n in range(10)])
        await user.session("s").add_messages([{"role": "user", "content": f"number {n}"} for n in range(10)])
    _, cursor = await ann.list_memories(limit=3)
    assert cursor is not None
    for call in (
        bob.list_memories(limit=3, after=cursor),
        ann.list_memories(limit=3, where={"metadata.a": 1}, after=cursor),
        ann.list_memories(layer="episodic", after=cursor),
        ann.session("s").messages(after=cursor),
        ann.list_memories(limit=3, after=cursor[:-2] + "A="),
    ):
        assert await _refused(call) == "after"
    page, _ = await ann.list_memories(limit=3, after=cursor)
    assert [record.content for record in page] == ["number 3", "number 4", "number 5"]


async def _refused(call: Awaitable[Any]) -> str | None:
    """The field that a refusal names; None if there was none."""
    try:
        await call
    except ValidationError as error:
        return error.field
    return None


async def _questions_at_once(open_memory: OpenMemory) -> None:
    memory = await open_memory()
    ann, bob = memory.user("ann"), memory.user("bob")
    await ann.add_memory("the apple of Ann")
    await bob.add_memory("the apple of Bob")
    await memory.work()

    async def ask(user: User, name: str) -> bool:
        return all(hit.content.endswith(name) for hit in await user.search_memory("the apple"))

    for _ in range(QUESTIONS // AT_ONCE):
        pairs = ((ann, "Ann"), (bob, "Bob")) * (AT_ONCE // 2)
        assert all(await asyncio.gather(*(ask(*who) for who in pairs)))


async def _queries(open_memory: OpenMemory) -> None:
    memory = await open_memory()
    ann = memory.user("ann")
    await ann.add_memory("the id is a-b-c and the share is 50%")
    await memory.work()
    for query in QUERIES:
        await ann.search_memory(query)
    assert len(await ann.search_memory("a-b-c")) == 1


async def _deleted_twice(open_memory: OpenMemory) -> None:
    ann = (await open_memory()).user("ann")
    added = await ann.add_memories([f"number {n}" for n in range(30)])
    _, after = await ann.list_memories(limit=10)
    await ann.forget([record.id for record in added[5:15]])
    rest, after = await ann.list_memories(limit=1000, after=after)
    assert [record.content for record in rest] == [f"number {n}" for n in range(15, 30)]
    assert after is None
    for call in (ann.forget(added[5].id), ann.update_memory(added[5].id, content="back again")):
        try:
            await call
        except NotFound:
            continue
        raise AssertionError("what was forgotten is still there")


async def _jumping_clock(open_memory: OpenMemory) -> None:
    hours = 0
    now_ms = 1_800_000_000_000
    memory = await open_memory(clock=lambda: now_ms + hours * 3_600_000, conversation_days=30)
    chat = memory.user("ann").session("s")
    for number, step in enumerate((0, -1, 24 * 20, -24 * 10, 1)):
        hours += step
        await chat.add_message("user", f"number {number}")
        await memory.work()
    assert [message.content for message in await chat.window()] == [f"number {n}" for n in range(5)]
    hours += 24 * 3650
    assert await chat.window() == []


def _spoilt(spoil: Callable[[Any], Any]) -> Scene:
    async def is_kept_as_text(open_memory: OpenMemory) -> None:
        memory = await open_memory(embedder=WrongEmbedder(spoil), job_attempts_max=1)
        ann = memory.user("ann")
        await ann.add_memory("the kettle is green")
        await memory.work()
        assert [hit.content for hit in await ann.search_memory("kettle")] == ["the kettle is green"]
        await ann.add_memory("the door is red")
        assert [hit.content for hit in await ann.search_memory("door")] == ["the door is red"]

    return is_kept_as_text


async def _same_key_at_once(open_memory: OpenMemory) -> None:
    chat = (await open_memory()).user("ann").session("s")
    said = await asyncio.gather(*(chat.add_message("user", "once", idempotency_key="k") for _ in range(8)))
    assert len({message.id for message in said}) == 1
    assert len(await chat.window()) == 1
    try:
        await chat.add_message("user", "other", idempotency_key="k")
    except Conflict:
        return
    raise AssertionError("one key was taken for two bodies")


# ── many owners ──────────────────────────────────────────────────────────────────────────────────

ORGS = ("a:b", "a", "*")
OWNERS = IDS[:20]


async def _many_owners(open_memory: OpenMemory) -> None:
    """Three orgs with twenty users each, all with the same ids for their own records, asking everything of everyone."""
    memory = await open_memory()
    users = [(f"owner{org}x{user}", memory.user(id, org=name))
             for org, name in enumerate(ORGS) for user, id in enumerate(OWNERS)]  # fmt: skip
    await asyncio.gather(*(_move_in(mark, user) for mark, user in users))
    await memory.work()
    for start in range(0, len(users), 10):
        seen = await asyncio.gather(*(_all_that_is_seen(user) for _, user in users[start : start + 10]))
        for (mark, _), texts in zip(users[start : start + 10], seen, strict=True):
            assert texts, "nobody sees nothing"
            assert {word for text in texts for word in text.split() if word.startswith("owner")} == {mark}


async def _move_in(mark: str, user: User) -> None:
    await user.add_memory(f"the key of {mark} is under the mat", id="note", metadata={"owner": mark})
    await user.session("s").add_message("user", f"I am {mark} and I like tea", id="said", metadata={"owner": mark})
    await user.session("s").working.set({"note": mark})


async def _all_that_is_seen(user: User) -> list[str]:
    """Every text that a user gets to see, however it is asked for."""
    seen = [hit.content for where in WIDE for hit in await user.search_memory("the key of", where=where, limit=1000)]
    seen += [hit.content for query in ("owner", "*", "%", "tea mat") for hit in await user.search_memory(query)]
    for layer in ("long_term", "conversation"):
        listed, _ = await user.list_memories(layer=layer, where=WIDE[0], limit=1000)
        seen += [record.content for record in listed]
    for id in ("note", "said"):
        seen.append((await user.get_memory(id)).content)
    seen += [str(message.content) for message in await user.session("s").window()]
    seen.append((await user.session("s").get_context("whose key is under the mat?")).system)
    seen += [str(line.get("content", "")) for line in await user.export()]
    return [" ".join(text.replace(".", " ").replace('"', " ").split()) for text in seen if "owner" in text]


SCENES: dict[str, Scene] = {
    **{name: _text(text) for name, text in TEXTS.items()},
    "B2 numbers come back": _numbers,
    "C3 odd ids are literal": _ids,
    "C4 odd sessions stay apart": _sessions,
    "C9 three orgs of twenty users": _many_owners,
    "C10 wide filters": _wide_filters,
    "C13 cursors of others": _cursors,
    "C14 questions at once": _questions_at_once,
    "D1 signs of query languages": _queries,
    **{name: _spoilt(spoil) for name, spoil in SPOILT.items()},
    "F12 one key at once": _same_key_at_once,
    "G1 clocks that jump": _jumping_clock,
    "G6 deleted while listed": _deleted_twice,
}
"""Case and name -> what must hold."""
TELLING = tuple(
    name for name in SCENES
    if name in ("A3 NUL", "A8 astral", "A13 sql", "E1 NaN", "E4 another dimension")
    or name.startswith(("B2", "C", "D", "F", "G"))
)  # fmt: skip
"""The scenes in which stores can differ most, for a quick look."""
