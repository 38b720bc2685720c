"""Bad inputs at the front door: what is called with what, the error it must raise, and the field it must name.

Whatever the store and the surface, after each of them nothing was stored, another user's data is unchanged, and
no content appears in the error. `examine` tries them; `matrix.py` does so on every store and over every surface.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Self

from recollect.errors import Conflict, NotFound, RecollectError, TooLarge, ValidationError
from recollect.memory import Memory
from recollect.validate import LIMITS

SECRET = "zebracanary"
"""Appears in what is refused and in what belongs to others: it may be seen nowhere else."""
UNSAID = "not said: that surface has no such verb, or cannot carry the value"


class Cast:
    """Ann and Bob, each with something stored: who the cases are about.

    `memory` is a memory, or one that is reached over a surface (`surfaces`); what is stored is looked up in Python.
    """

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.truth: Memory = getattr(memory, "truth", memory)
        self.whole: str = getattr(memory, "whole", "")
        self.ann, self.bob = memory.user("ann"), memory.user("bob")
        self.chat = self.ann.session("s")

    async def prepare(self) -> Self:
        ann, bob = self.truth.user("ann"), self.truth.user("bob")
        await ann.add_memory("something of Ann's own", id="mine")
        await ann.session("s").add_message("user", "something Ann said", id="said")
        await bob.add_memory(f"something of Bob's {SECRET}", id="foreign")
        await bob.session("b").add_message("user", f"Bob said {SECRET}", id="theirs")
        await self.truth.work()
        return self

    async def state(self) -> Any:
        """Everything that is stored for both, for comparison."""
        counts = replace(await self.truth.survey(), bytes=None)  # a server's memory use changes by itself
        return (await self.truth.user("ann").export())[1:], (await self.truth.user("bob").export())[1:], counts

    @property
    def sent(self) -> int:
        """Calls that went over the surface, to see whether another one did. Always 0 in Python, where all do."""
        return getattr(self.memory, "sent", 0)

    def expected(self, error: type[RecollectError]) -> str:
        """The name of an error as the surface reports it."""
        told: type[RecollectError] = self.memory.as_told(error) if self.is_reached else error
        return told.__name__

    @property
    def is_reached(self) -> bool:
        """Whether the memory is reached over a surface."""
        return self.memory is not self.truth


Way = Callable[[Cast, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """One bad input: `way` names the call, `field` what the error must name."""

    case: str
    name: str
    way: str
    call: Way
    value: Any
    error: type[RecollectError]
    field: str

    async def answer(self, cast: Cast) -> str:
        """The answer it gets, in a few words that are the same on every store."""
        sent = cast.sent
        answer = await self._answer(cast)
        return UNSAID if cast.is_reached and cast.sent == sent else answer

    async def _answer(self, cast: Cast) -> str:
        try:
            await self.call(cast, self.value)
        except RecollectError as error:
            told = SECRET in f"{error} {error!r} {error.__cause__!r}"
            return f"{type(error).__name__} {error.field}" + (", and tells the content" if told else "")
        except Exception as error:
            return f"{type(error).__name__}, which is none of ours"
        return "nothing: it was taken"

    def is_right(self, answer: str, cast: Cast) -> bool:
        kind, _, field = answer.partition(" ")
        is_named = field.startswith(self.field) or field == cast.whole
        return kind == cast.expected(self.error) and is_named and field != "None" and "," not in field


def _each(case: str, error: type[RecollectError], field: str, values: Any, **ways: Way) -> Iterator[Case]:
    """A case for each value and each way to pass it. Values without names are named after their `repr`."""
    named = values if isinstance(values, Mapping) else {_look(value): value for value in values}
    for name, value in named.items():
        for way, call in ways.items():
            yield Case(case, name, way.replace("_", " "), call, value, error, field)


def _look(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:30]}... of {len(told)}"


# ── text ─────────────────────────────────────────────────────────────────────────────────────────

WRITTEN: dict[str, Way] = {
    "message": lambda cast, text: cast.chat.add_message("user", text),
    "memory": lambda cast, text: cast.ann.add_memory(text),
}
ANSWERED: dict[str, Way] = {"pair": lambda cast, text: cast.chat.add_interaction("fine", text)}
ASKED: dict[str, Way] = {
    "query": lambda cast, text: cast.ann.search_memory(text),
    "context": lambda cast, text: cast.chat.get_context(text),
}
CHANGED: dict[str, Way] = {"update": lambda cast, text: cast.ann.update_memory("mine", content=text)}


def _texts() -> Iterator[Case]:
    wrong: dict[str, dict[str, Any]] = {
        "A1": {"empty": "", "spaces": " \t\n "},
        "A2": {"int": 5, "list": [SECRET], "dict": {"text": SECRET}, "bytes": SECRET.encode(), "float": 1.5},
        "A4": {"surrogate": f"{SECRET}\ud800", "low surrogate": "\udfff"},
    }
    for case, texts in wrong.items():
        yield from _each(case, ValidationError, "content", texts, **WRITTEN, **CHANGED)
        yield from _each(case, ValidationError, "assistant", texts, **ANSWERED)
        yield from _each(case, ValidationError, "query", texts, **ASKED)
    yield from _each("A2", ValidationError, "content", {"None": None}, **WRITTEN)
    yield from _each("A2", ValidationError, "assistant", {"None": None}, **ANSWERED)
    yield from _each("A2", ValidationError, "query", {"None": None}, **ASKED)
    most = LIMITS.text_bytes
    long = {"ascii": "x" * (most + 1), "wide": "é" * (most // 2) + "x", "huge": "x" * 10_000_000}
    yield from _each("A8", TooLarge, "content", long, message=WRITTEN["message"], memory=WRITTEN["memory"])
    yield from _each("A8", TooLarge, "query", long, query=ASKED["query"])
    parts = {"parts": [{"type": "text", "text": "x" * 70_000}]}
    yield from _each("A9", TooLarge, "content", parts, message=WRITTEN["message"])
    whole = {"batch": [{"role": "user", "content": "x" * 60_000}] * 90}
    yield from _each("A9", TooLarge, "changes", whole, messages=lambda cast, items: cast.chat.add_messages(items))
    broken: list[list[Any]] = [[], [5], [{}], [{"type": "video"}], [{"type": "text"}], [{"type": "text", "text": 5}]]
    yield from _each("A2", ValidationError, "content", [*broken, [{"type": "image_url"}]], message=WRITTEN["message"])


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def _messages() -> Iterator[Case]:
    def said(name: str, role: str = "user") -> Way:
        return lambda cast, value: cast.chat.add_message(role, SECRET, **{name: value})

    roles = ("", "boss", None, 5, "USER", ["user"])
    yield from _each("A2", ValidationError, "role", roles, role=lambda cast, role: cast.chat.add_message(role, SECRET))
    calls: Sequence[Any] = (5, [5], [{}], [{"id": ""}], [{"id": "a"}, {"id": "a"}], {"id": "a"})
    yield from _each("A2", ValidationError, "tool_calls", calls, tool_calls=said("tool_calls", "assistant"))
    yield from _each("A2", ValidationError, "tool_calls", [[{"id": "a"}]], tool_calls_of_a_user=said("tool_calls"))
    yield from _each("A2", ValidationError, "tool_call_id", ["a"], answer_of_a_user=said("tool_call_id"))
    times = ("yesterday", "2026-13-01", "2026-01-01T00:00:00", datetime(2026, 1, 1), 1.5, True, 10**18, "0000-01-01",
             [1])  # fmt: skip
    yield from _each("D11", ValidationError, "created_at", times, message=said("created_at"))
    yield from _each("A2", ValidationError, "name", ("", " ", 5, "a\nb", "x" * 129), name=said("name"))
    batches: Sequence[Any] = (5, None, "text", [], [5], [None], [["user", "x"]], [{"role": "user"}], [{1: 2}])
    yield from _each(
        "A2", ValidationError, "", batches,
        messages=lambda cast, items: cast.chat.add_messages(items),
        memories=lambda cast, items: cast.ann.add_memories(items),
    )  # fmt: skip
    twice = {"one id twice": [{"role": "user", "content": text, "id": "m1"} for text in (SECRET, "another")]}
    yield from _each(
        "A2", ValidationError, "messages.1.id", twice, messages=lambda cast, items: cast.chat.add_messages(items)
    )


# ── metadata ─────────────────────────────────────────────────────────────────────────────────────


def _nested(depth: int) -> Any:
    value: Any = SECRET
    for _ in range(depth):
        value = {"a": value}
    return value


def _circular() -> dict[str, Any]:
    value: dict[str, Any] = {"secret": SECRET}
    value["self"] = value
    return value


def _metadata() -> Iterator[Case]:
    wrong: dict[str, dict[str, Any]] = {
        "B1": {"NaN": {"a": math.nan}, "infinity": {"a": -math.inf}},
        "B2": {"2**63": {"a": 2**63}, "2**70": {"a": [2**70]}},
        "B3": {"1e400": {"a": float("1e400")}},
        "B4": {f"depth {depth}": _nested(depth) for depth in (9, 1_000, 100_000)},
        "B7": {
            "empty": {"": 1}, "dot": {"a.b": 1}, "dollar": {"$a": 1}, "quote": {'a"b': 1}, "newline": {"a\nb": 1},
            "NUL": {"a\x00": 1}, "long": {"k" * 10_000: 1}, "proto": {"__proto__": 1},
            "constructor": {"constructor": 1}, "int key": {1: 1},
        },
        "B8": {name: {name: SECRET} for name in ("user_id", "org_id", "id", "hash", "created_at", "embedding")},
        "B9": {
            "datetime": {"a": datetime(2026, 1, 1)}, "set": {"a": {1}}, "bytes": {"a": b"x"},
            "Decimal": {"a": Decimal(1)}, "object": {"a": object()}, "list": [SECRET], "text": SECRET,
        },
        "B10": {"circular": _circular()},
        "A4": {"surrogate in metadata": {"a": f"{SECRET}\ud800"}},
    }  # fmt: skip
    large = {
        "65 keys": {f"k{n}": n for n in range(65)},
        "100000 keys": {f"k{n}": n for n in range(100_000)},
        "size": {"a": SECRET * 2_000},
    }
    ways: dict[str, Way] = {
        "message": lambda cast, value: cast.chat.add_message("user", "x", metadata=value),
        "memory": lambda cast, value: cast.ann.add_memory("x", metadata=value),
        "update": lambda cast, value: cast.ann.update_memory("mine", metadata=value),
    }
    for case, values in wrong.items():
        yield from _each(case, ValidationError, "metadata", values, **ways)
    yield from _each("B5", TooLarge, "metadata", large, **ways)
    inner = {"inner": {"outer": {"inner": {1, 2}}}}
    yield from _each("B9", ValidationError, "metadata.outer.inner", inner, memory=ways["memory"])
    shares = (-0.1, 1.1, math.nan, "high", True, type(None))
    yield from _each(
        "B1", ValidationError, "importance", shares,
        importance=lambda cast, value: cast.ann.add_memory(SECRET, importance=value),
    )  # fmt: skip
    yield from _each(
        "B1", ValidationError, "confidence", shares,
        confidence=lambda cast, value: cast.ann.add_memory(SECRET, confidence=value),
    )  # fmt: skip


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────

NO_IDS: dict[str, tuple[Any, ...]] = {
    "C1": ("", " ", "\t", None, True, 0, 1.5, [SECRET], b"ann"),
    "C2": ({"$ne": ""}, {"$in": ["ann"]}, {"ne": 1}),
    "C5": ("a\x00b", "a\nb", "a\r\nb", "{tag}", "x" * 129, "x" * 1_000_000, "a\ud800"),
}
BY_ID: dict[str, tuple[str, Way]] = {
    "user": ("user", lambda cast, id: cast.memory.user(id).list_memories()),
    "org": ("org", lambda cast, id: cast.memory.user("ann", org=id).list_memories()),
    "session": ("session", lambda cast, id: cast.ann.session(id).messages()),
    "get": ("id", lambda cast, id: cast.ann.get_memory(id)),
    "history": ("id", lambda cast, id: cast.ann.history(id)),
    "restore": ("id", lambda cast, id: cast.ann.restore(id)),
    "retry": ("failure_id", lambda cast, id: cast.ann.retry(id)),
    "branch": ("into", lambda cast, id: cast.chat.branch("said", id)),
}
WITH_ID: dict[str, tuple[str, Way]] = {
    "forget": ("ids", lambda cast, id: cast.ann.forget([id])),
    "memory id": ("id", lambda cast, id: cast.ann.add_memory(SECRET, id=id)),
    "message id": ("id", lambda cast, id: cast.chat.add_message("user", SECRET, id=id)),
    "key": ("idempotency_key", lambda cast, id: cast.chat.add_message("user", SECRET, idempotency_key=id)),
}
"""Calls where None means that there is none."""
OF_OTHERS: dict[str, tuple[str, Way]] = {
    "get": ("id", lambda cast, id: cast.ann.get_memory(id)),
    "update": ("id", lambda cast, id: cast.ann.update_memory(id, content=SECRET)),
    "history": ("id", lambda cast, id: cast.ann.history(id)),
    "forget": ("id", lambda cast, id: cast.ann.forget(id)),
    "forget with one's own": ("id", lambda cast, id: cast.ann.forget(["mine", id])),
    "restore": ("id", lambda cast, id: cast.ann.restore(id)),
    "retry": ("failure_id", lambda cast, id: cast.ann.retry(id)),
    "branch": ("message_id", lambda cast, id: cast.chat.branch(id, "other")),
}


def _ids() -> Iterator[Case]:
    for case, values in NO_IDS.items():
        given = [value for value in values if value is not None]
        for ways, ids in ((BY_ID, values), (WITH_ID, given)):
            for way, (field, call) in ways.items():
                yield from _each(case, ValidationError, field, ids, **{way: call})
        agents = [value for value in given if value]
        yield from _each(
            case,
            ValidationError,
            "agent",
            agents,
            agent=lambda cast, id: cast.ann.session("s", agent=id).add_message("user", SECRET),
        )
    for way, (field, call) in OF_OTHERS.items():
        yield from _each("C7", NotFound, field, ("foreign", "theirs", "unknown", "*", "%"), **{way: call})
    taken: dict[str, Way] = {
        "message": lambda cast, id: cast.chat.add_message("user", SECRET, id=id),
        "of another session": lambda cast, id: cast.ann.session("t").add_message("user", SECRET, id=id),
        "memory": lambda cast, id: cast.ann.add_memory(SECRET, id=id),
    }
    yield from _each("F11", Conflict, "id", ["said"], **taken)
    yield from _each("F11", Conflict, "id", ["mine"], memory=taken["memory"])


# ── questions ────────────────────────────────────────────────────────────────────────────────────

NO_FILTERS: Sequence[Any] = (
    5, "layer", [], {}, {"owner": 1}, {"user": "bob"}, {"metadata": {"a": 1}}, {"metadata.": 1},
    {"$or": []}, {"or": []}, {"or": {}}, {"and": [5]}, {"not": []}, {"metadata.k') = 'v' OR 1=1 --": 1},
    {"metadata.k\n": 1}, {'metadata.k"]': 1}, {"metadata." + "k" * 10_000: 1}, {"metadata.a": {"like": "%"}},
    {"metadata.a": {"$gt": 1}}, {"metadata.a": {}}, {"metadata.a": None}, {"metadata.a": math.nan},
    {"metadata.a": {"in": []}}, {"metadata.a": {"exists": "yes"}}, {"role": {"gt": "a"}}, {"layer": "session"},
    {"importance": "high"}, {"created_at": {"gt": "year 0"}}, {"created_at": {"gt": "2026-01-01T00:00:00"}},
    {"created_at": {"gt": "2026-02-01", "lt": "2026-01-01"}}, {"event_at": {"gte": "0000-01-01"}},
    {"created_at": {"lt": "2026-06-30T23:59:60Z"}}, {1: 2},
)  # fmt: skip


def _deep_filter() -> dict[str, Any]:
    where: dict[str, Any] = {"layer": "fact"}
    for _ in range(5_000):
        where = {"not": where}
    return where


def _filters() -> Iterator[Case]:
    ways: dict[str, Way] = {
        "search": lambda cast, where: cast.ann.search_memory("x", where=where),
        "list": lambda cast, where: cast.ann.list_memories(where=where),
        "forget": lambda cast, where: cast.ann.forget(where=where),
    }
    yield from _each("D6", ValidationError, "where", NO_FILTERS, **ways)
    yield from _each("D6", ValidationError, "where", {"deep": _deep_filter()}, search=ways["search"])
    wide = {"wide": {"or": [{"metadata.a": n} for n in range(65)]}}
    yield from _each("D6", TooLarge, "where", wide, search=ways["search"])


def _layers() -> Iterator[Case]:
    search: Way = lambda cast, layer: cast.ann.search_memory("x", layer=layer)  # noqa: E731
    added: Way = lambda cast, layer: cast.ann.add_memory(SECRET, layer=layer)  # noqa: E731
    some: Sequence[Any] = ("session", "past", "failure", "LONG_TERM", "", 5, [], ["long_term", 5], {"long_term"})
    yield from _each(
        "D6", ValidationError, "layer", some,
        searched_layer=search, layers_of_a_context=lambda cast, layers: cast.chat.get_context("x", layers=layers),
    )  # fmt: skip
    yield from _each(
        "D6", ValidationError, "layer", ("session", "conversation", "fact", "", 5, None), layer_of_a_memory=added
    )
    yield from _each(
        "D6", ValidationError, "layer", ("session", "", 5, None),
        listed_layer=lambda cast, layer: cast.ann.list_memories(layer=layer),
    )  # fmt: skip
    yield from _each("D6", ValidationError, "layer", ("working", "customization"), searched_layer=search)
    yield from _each(
        "D6", ValidationError, "sections", ("profile", "", 5, [], ["fact"], ["profile", 5], ["RECENT"]),
        sections_of_a_context=lambda cast, sections: cast.chat.get_context("x", sections=sections),
    )  # fmt: skip
    policies: Sequence[Any] = (
        "short", 5, [], {"budget": 5}, {"shares": {SECRET: 0.5}}, {"shares": {"recent": "half"}}, {5: None},
    )  # fmt: skip
    yield from _each(
        "D6", ValidationError, "policy", policies,
        policy_of_a_context=lambda cast, policy: cast.chat.get_context("x", policy=policy),
    )  # fmt: skip


def _questions() -> Iterator[Case]:
    limits = (0, -1, 1.5, "3", True, 1001, 2**31, 2**63, 2**70, None, [5])
    yield from _each(
        "D7", ValidationError, "limit", limits,
        search=lambda cast, limit: cast.ann.search_memory("x", limit=limit),
        list=lambda cast, limit: cast.ann.list_memories(limit=limit),
        messages=lambda cast, limit: cast.chat.messages(limit=limit),
        sessions=lambda cast, limit: cast.ann.sessions(limit=limit),
    )  # fmt: skip
    yield from _each(
        "D7", ValidationError, "window", [each for each in limits if each is not None],
        window_of_a_context=lambda cast, window: cast.chat.get_context("x", window=window),
    )  # fmt: skip
    yield from _each(
        "D7", ValidationError, "only_new", (1, "yes", None, []),
        added_if_new=lambda cast, chosen: cast.ann.add_memory(SECRET, only_new=chosen),
    )  # fmt: skip
    budgets = (0, -1, 1.5, "3", True, 10**9, None)
    yield from _each(
        "D7", ValidationError, "max_tokens", budgets,
        context=lambda cast, most: cast.chat.get_context("x", max_tokens=most),
    )  # fmt: skip
    cursors = ("nonsense", "", 5, b"x", "\u00e9", "AAAA", "MS4xLmFiY2RlZg==")
    yield from _each(
        "C13", ValidationError, "after", cursors,
        list=lambda cast, after: cast.ann.list_memories(after=after),
        messages=lambda cast, after: cast.chat.messages(after=after),
    )  # fmt: skip
    yield from _each("D9", TooLarge, "query", {"large": f"{SECRET} " * 100_000}, query=ASKED["query"])
    single: dict[str, tuple[Any, Way]] = {
        "quality": ("perfect", lambda cast, value: cast.ann.search_memory("x", quality=value)),
        "at": ("noon", lambda cast, value: cast.ann.search_memory("x", at=value)),
        "title": (" ", lambda cast, value: cast.chat.rename(value)),
        "content": ("mine", lambda cast, value: cast.ann.update_memory(value)),
        "layer": ("said", lambda cast, value: cast.ann.update_memory(value, content=SECRET)),
    }
    for field, (value, call) in single.items():
        yield from _each("D7", ValidationError, field, [value], **{field: call})


CASES: tuple[Case, ...] = (
    *_texts(), *_messages(), *_metadata(), *_ids(), *_filters(), *_layers(), *_questions(),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the inputs of one case on one store: each answer, and what is wrong."""

    case: str
    answers: Mapping[str, str]
    wrong: tuple[str, ...] = ()


async def examine(cast: Cast, cases: Sequence[Case] = CASES) -> list[Outcome]:
    """Give a memory these inputs; after each case, nothing may have changed.

    What a surface cannot express is left out.
    """
    before = await cast.state()
    outcomes = []
    for label in dict.fromkeys(case.case for case in cases):
        own = {f"{case.way}: {case.name}": case for case in cases if case.case == label}
        answers = {name: await case.answer(cast) for name, case in own.items()}
        answers = {name: answer for name, answer in answers.items() if answer != UNSAID}
        wrong = [f"{name}: {answer}" for name, answer in answers.items() if not own[name].is_right(answer, cast)]
        if await cast.state() != before:
            wrong.append("what is stored has changed")
        outcomes.append(Outcome(label, answers, tuple(wrong)))
    return outcomes
