"""What an adapter costs: `make bench-adapters`.

Four callers take turns, call by call, so that a busy machine is busy for all of them:

- the adapter;
- the verbs of the memory that it wraps, with everything prepared;
- the framework alone: what it does around the call, and its objects built and serialised by its own means, with
  nothing stored. Any adapter has to pay this;
- the framework's own way of storing the same.

What an adapter adds is what it takes beyond the two in the middle, as a fraction of what it wraps. The arguments of a
call are made before the stopwatch starts. All that write to disk write to a file in the same folder. CPU says more than
wall time here: the time of an `fsync` depends on the disk, and is the same for the adapter and for what it wraps.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.memory import SQLiteSession
from anthropic.tools.memory import BetaAsyncAbstractMemoryTool, BetaAsyncLocalFilesystemMemoryTool
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict, messages_from_dict
from langchain_core.retrievers import BaseRetriever
from langgraph.store.base import BaseStore, Item, Op, Result, SearchItem
from langgraph.store.memory import InMemoryStore
from llama_index.core.base.llms.types import ChatMessage
from pydantic import TypeAdapter
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord, InMemoryConversationStore
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_core import from_json, to_json
from timing import Samples, say, table

from recollect import Memory
from recollect.adapters import langchain, langgraph, openai_agents, pydantic_ai
from recollect.adapters.anthropic import AsyncMemoryTool
from recollect.adapters.claude import MemoryTool
from recollect.adapters.langgraph_shape import item_draft, item_id
from recollect.adapters.llama_index import MemoryBlock
from recollect.session import Session
from recollect.user import User

warnings.simplefilter("ignore")
try:
    from langgraph.store.sqlite import AsyncSqliteStore
except ImportError:
    AsyncSqliteStore = None

NAMES = ("adapter", "wrapped", "alone", "own")
AIM = 0.20
"""How much more CPU an adapter may take than the verbs it wraps, not counting what the framework itself takes."""
HELD = 50
"""Messages or items that exist when reading begins, and that each read returns."""
QUESTION = "Which boat did I want to look at?"

Call = Callable[[Any], Awaitable[Any]]


async def nothing(given: Any) -> None:
    """The work of a framework that has no objects of its own."""


@dataclass(frozen=True)
class Race:
    """One action, done by the adapter, by the memory alone, and by the framework's own implementation."""

    adapter: str
    action: str
    ours: Call
    wrapped: Call
    own: Call = nothing
    own_name: str = "none"
    alone: Call = nothing
    """The framework by its own means, with nothing stored."""
    given: Callable[[], Any] = lambda: None
    """Makes the argument of each call, anew each time and before the stopwatch starts."""


def turn(number: int) -> tuple[str, str]:
    """What a user says and an assistant answers, of the usual length in a chat."""
    asked = f"Turn {number}: could you remind me which of the boats in the harbour I wanted to look at on Sunday?"
    return asked, f"Turn {number}: the green one at the second pier, because its cabin has room for two and a dog."


async def read_all(session: Session) -> Any:
    return (await session.messages(limit=1_000))[0]


# ── LangChain ────────────────────────────────────────────────────────────────────────────────────


class NoRetriever(BaseRetriever):
    """LangChain around a retriever that already has its documents."""

    found: list[dict[str, Any]]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(**each) for each in self.found]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(**each) for each in self.found]


async def found_with_reasons(user: User) -> Any:
    return [(hit.record, hit.score, hit.reason) for hit in await user.search_memory(QUESTION)]


async def langchain_races(user: User, folder: Path) -> list[Race]:
    numbers = itertools.count()

    def said() -> tuple[list[Any], list[Any]]:
        asked, answered = turn(next(numbers))
        messages = [HumanMessage(asked), AIMessage(answered)]
        return messages, [langchain.to_stored(each) for each in messages]

    async def written(given: Any) -> Any:
        return [message_to_dict(each) for each in given[0]]

    async def read(given: Any) -> Any:
        return messages_from_dict(held_written)

    ours, own = langchain.ChatMessageHistory(user.session("lc")), InMemoryChatMessageHistory()
    plain, reading = user.session("lc-plain"), user.session("lc-read")
    held = langchain.ChatMessageHistory(reading)
    for _ in range(HELD // 2):
        await held.aadd_messages(said()[0])
    messages = await held.aget_messages()
    held_written = [message_to_dict(each) for each in messages]
    own_held = InMemoryChatMessageHistory(messages=messages)
    retriever = langchain.Retriever(user=user)
    documents = await retriever.ainvoke(QUESTION)
    none = NoRetriever(found=[each.model_dump(exclude={"type"}) for each in documents])
    memory_of = "InMemoryChatMessageHistory"
    return [
        Race("LangChain history", "add a turn", lambda given: ours.aadd_messages(given[0]),
             lambda given: plain.add_messages(given[1]), lambda given: own.aadd_messages(given[0]), memory_of,
             alone=written, given=said),
        Race("LangChain history", f"read {HELD}", lambda _: held.aget_messages(), lambda _: read_all(reading),
             lambda _: own_held.aget_messages(), memory_of, alone=read),
        Race("LangChain retriever", "find 5", lambda _: retriever.ainvoke(QUESTION),
             lambda _: found_with_reasons(user), alone=lambda _: none.ainvoke(QUESTION)),
    ]  # fmt: skip


# ── OpenAI Agents ────────────────────────────────────────────────────────────────────────────────


async def agents_races(user: User, folder: Path) -> list[Race]:
    numbers = itertools.count()

    def items() -> tuple[list[Any], list[Any]]:
        asked, answered = turn(next(numbers))
        part = {"type": "output_text", "text": answered, "annotations": []}
        named = {"id": f"msg_{next(numbers)}", "type": "message", "role": "assistant"}
        answer = named | {"status": "completed", "content": [part]}
        said: list[Any] = [{"role": "user", "content": asked}, answer]
        return said, [openai_agents.to_stored(item) for item in said]

    async def written(given: Any) -> bytes:
        return to_json(given[0])

    async def read(_: Any) -> Any:
        return from_json(held_written)

    ours, held = openai_agents.Session(user, "oa"), openai_agents.Session(user, "oa-read")
    own, own_held = SQLiteSession("a", folder / "agents.db"), SQLiteSession("b", folder / "agents.db")
    plain, reading = user.session("oa-plain"), user.session("oa-read")
    for _ in range(HELD // 2):
        await held.add_items(items()[0])
        await own_held.add_items(items()[0])
    held_written = to_json(await held.get_items())
    return [
        Race("OpenAI Agents session", "add a turn", lambda given: ours.add_items(given[0]),
             lambda given: plain.add_messages(given[1]), lambda given: own.add_items(given[0]), "SQLiteSession",
             alone=written, given=items),
        Race("OpenAI Agents session", f"read {HELD}", lambda _: held.get_items(), lambda _: read_all(reading),
             lambda _: own_held.get_items(), "SQLiteSession", alone=read),
    ]  # fmt: skip


# ── LangGraph ────────────────────────────────────────────────────────────────────────────────────


class NoStore(BaseStore):
    """LangGraph around a store that already has its answers, except for the objects that hold them."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make = make

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._make() for _ in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._make() for _ in ops]


async def langgraph_races(memory: Memory, folder: Path, stack: AsyncExitStack) -> list[Race]:
    user = memory.user("langgraph")
    numbers = itertools.count()
    ours: Any = langgraph.Store(memory)
    own: Any = InMemoryStore()
    if AsyncSqliteStore is not None:
        own = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(str(folder / "graph.db")))
        await own.setup()
    name, place = type(own).__name__, ("memories",)

    def drafted(key: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
        value = {"text": turn(next(numbers))[0]}
        draft = item_draft(("plain",), key, value, value["text"], now=0) | {"id": item_id(("plain",), key)}
        return key, value, draft

    for store in (ours, own):
        for number in range(HELD):
            await store.aput(place, str(number), {"text": turn(number)[0]})
    await user.add_memories([drafted("7")[2]])
    id = item_id(place, "7")
    under = {"metadata.store_path": {"gte": "memories.", "lt": "memories/"}}
    item = (await ours.aget(place, "7")).dict()
    written, got = NoStore(lambda: None), NoStore(lambda: Item(**item))
    found = NoStore(lambda: [SearchItem(**item) for _ in range(10)])
    return [
        Race("LangGraph store", "put", lambda given: ours.aput(("new",), *given[:2]),
             lambda given: user.add_memories([given[2]]), lambda given: own.aput(("new",), *given[:2]), name,
             alone=lambda given: written.aput(("new",), *given[:2]), given=lambda: drafted(str(next(numbers)))),
        Race("LangGraph store", "put again", lambda given: ours.aput(place, *given[:2]),
             lambda given: user.update_memories([given[2]]), lambda given: own.aput(place, *given[:2]), name,
             alone=lambda given: written.aput(place, *given[:2]), given=lambda: drafted("7")),
        Race("LangGraph store", "get", lambda _: ours.aget(place, "7"), lambda _: user.get_memories([id]),
             lambda _: own.aget(place, "7"), name, alone=lambda _: got.aget(place, "7")),
        Race("LangGraph store", "list 10", lambda _: ours.asearch(place, limit=10),
             lambda _: user.list_memories(where=under, limit=10), lambda _: own.asearch(place, limit=10), name,
             alone=lambda _: found.asearch(place, limit=10)),
    ]  # fmt: skip


# ── Pydantic AI ──────────────────────────────────────────────────────────────────────────────────


RECORDS = TypeAdapter(ConversationRecord)


class NoConversations(InMemoryConversationStore):
    """Pydantic AI around a store that writes nothing, but makes the same texts and objects as one that does."""

    def __init__(self, record: ConversationRecord | None = None, messages: Sequence[Any] = ()) -> None:
        super().__init__()
        self._record = RECORDS.dump_json(record) if record else b""
        self._messages = ModelMessagesTypeAdapter.dump_json(list(messages))
        self._ids = [f"entry-{place}" for place in range(len(messages))]

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return RECORDS.validate_json(self._record) if self._record else None

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> Any:
        said = ModelMessagesTypeAdapter.validate_json(self._messages)
        return [
            ConversationEntry(id=id, parent_id=None, message=message)
            for id, message in zip(self._ids, said, strict=True)
        ]

    async def write_record(self, record: Any, *, new_entries: Any = (), expected_revision: Any) -> None:
        RECORDS.dump_python(record, mode="json")
        ModelMessagesTypeAdapter.dump_python([each.message for each in new_entries], mode="json")


async def pydantic_races(user: User, folder: Path) -> list[Race]:
    ours, own = pydantic_ai.Store(user), InMemoryConversationStore()
    plain = user.session("pa-plain")
    numbers = itertools.count()

    def said() -> list[Any]:
        asked, answered = turn(next(numbers))
        return [ModelRequest([UserPromptPart(asked)]), ModelResponse([TextPart(answered)])]

    def conversation() -> tuple[Conversation, list[Any]]:
        entries, parent = [], None
        new = Conversation(conversation_id=f"c{next(numbers)}", messages=said())
        for message in new.messages:
            entries.append(ConversationEntry(parent_id=parent, message=message))
            parent = entries[-1].id
        return new, pydantic_ai.to_stored(entries)

    async def check_and_add(given: Any) -> None:
        """A save reads the record, and the write compares it again."""
        await plain.messages(limit=4, newest_first=True)
        await plain.messages(limit=4, newest_first=True)
        await plain.add_messages(given[1])

    async def record_and_messages(_: Any) -> None:
        await user.session("pa-read").messages(limit=4, newest_first=True)
        await user.session("pa-read").messages(limit=100, newest_first=True)

    long = Conversation(conversation_id="pa-read", messages=[each for _ in range(HELD // 2) for each in said()])
    await ours.save(long)
    await own.save(Conversation(conversation_id="pa-read", messages=list(long.messages)))
    saving, loading = NoConversations(), NoConversations(await ours.read_record("pa-read"), long.messages)
    return [
        Race("Pydantic AI store", "save a new one", lambda given: ours.save(given[0]), check_and_add,
             lambda given: own.save(given[0]), "in memory", alone=lambda given: saving.save(given[0]),
             given=conversation),
        Race("Pydantic AI store", f"load {HELD}", lambda _: ours.load("pa-read"), record_and_messages,
             lambda _: own.load("pa-read"), "in memory", alone=lambda _: loading.load("pa-read")),
    ]  # fmt: skip


# ── Claude ───────────────────────────────────────────────────────────────────────────────────────


class NoFiles(BetaAsyncAbstractMemoryTool):
    """Anthropic's SDK around a memory tool that stores nothing."""

    async def _answer(self, command: Any) -> str:
        return ""

    view = create = str_replace = insert = delete = rename = _answer


async def claude_races(name: str, user: User, tool: Call, alone: Call, folder: Path) -> list[Race]:
    """A tool that keeps files in a memory, beside the file tool of Anthropic's SDK."""
    own = BetaAsyncLocalFilesystemMemoryTool(str(folder / name)).call
    numbers = itertools.count()
    viewed = {"command": "view", "path": "/memories/notes"}
    for each in (tool, own):
        await each({"command": "create", "path": "/memories/notes", "file_text": turn(0)[0]})
    id = (await user.list_memories(where={"metadata.memory_path": "/memories/notes"}))[0][0].id

    def file() -> dict[str, Any]:
        number = next(numbers)
        return {"command": "create", "path": f"/memories/{number}", "file_text": turn(number)[0]}

    async def check_and_add(given: Any) -> None:
        path = given["path"]
        await user.list_memories(where={"metadata.memory_path": {"gte": f"{path}/", "lt": f"{path}0"}}, limit=1)
        await user.add_memory(given["file_text"], metadata={"memory_path": f"-{path}", "pinned": True})

    async def get(_: Any) -> None:
        await user.get_memories([id])

    return [
        Race(name, "create", tool, check_and_add, own, "the SDK's files", alone, file),
        Race(name, "view", tool, get, own, "the SDK's files", alone, lambda: viewed),
    ]


# ── LlamaIndex ───────────────────────────────────────────────────────────────────────────────────


async def llama_index_races(user: User) -> list[Race]:
    numbers = itertools.count()
    block = MemoryBlock(user=user, session_id="li")
    plain = user.session("li-plain")
    asked = [ChatMessage(role="user", content=QUESTION)]

    def said() -> list[ChatMessage]:
        user_text, answer = turn(next(numbers))
        return [ChatMessage(role="user", content=user_text), ChatMessage(role="assistant", content=answer)]

    return [
        Race("LlamaIndex block", "context", lambda _: block._aget(asked),
             lambda _: user.get_context(QUESTION, max_tokens=block.max_tokens)),
        Race("LlamaIndex block", "keep a turn", lambda given: block._aput(given),
             lambda given: plain.add_messages([{"role": each.role.value, "content": each.content} for each in given]),
             given=said),
    ]  # fmt: skip


# ── running and reporting ────────────────────────────────────────────────────────────────────────


def calm(cpu_ns: list[int]) -> float:
    """What a call takes while no other call disturbs the caches: the lower quartile."""
    return statistics.quantiles(cpu_ns, n=4)[0]


async def spent(call: Call, given: Any) -> None:
    """Drop the answer of a call while the stopwatch runs, so that whoever made it also pays for freeing it."""
    await call(given)


async def run(race: Race, rounds: int) -> dict[str, Any]:
    """Let the four take turns in random order, so that what one leaves running does not always hit the same other."""
    calls = [race.ours, race.wrapped, race.alone, race.own]
    samples = [Samples() for _ in calls]
    turns = random.Random(7)
    for _ in range(rounds):
        for place in turns.sample(range(len(calls)), len(calls)):
            await samples[place].measure(partial(spent, calls[place], race.given()))
    cpu = [calm(each.cpu_ns) / 1e3 for each in samples]
    wall = [statistics.median(each.wall_ns) / 1e3 for each in samples]
    added = cpu[0] - cpu[1] - cpu[2]
    return (
        {"adapter": race.adapter, "action": race.action, "beside": race.own_name}
        | {f"{name}_cpu_us": round(each, 1) for name, each in zip(NAMES, cpu, strict=True)}
        | {f"{name}_us": round(each, 1) for name, each in zip(NAMES, wall, strict=True)}
        | {"whole": round(cpu[0] / cpu[1] - 1, 3), "overhead": round(added / cpu[1], 3), "overhead_us": round(added, 1)}
    )


def shown(figures: list[dict[str, Any]]) -> Iterator[list[str]]:
    for each in figures:
        cpu = [f"{each[f'{name}_cpu_us']:,.0f}" for name in NAMES]
        yield [each["adapter"], each["action"], *cpu, f"{each['whole']:+.0%}", f"{each['overhead']:+.0%}",
               f"{each['adapter_us']:,.0f}", f"{each['own_us']:,.0f}", each["beside"]]  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with AsyncExitStack() as stack:
            memory = await stack.enter_async_context(Memory.open(f"sqlite:///{place}/recollect.db", worker=False))
            claude, runner = memory.user("claude"), memory.user("runner")
            races = [
                *await langchain_races(memory.user("langchain"), place),
                *await agents_races(memory.user("agents"), place),
                *await langgraph_races(memory, place, stack),
                *await pydantic_races(memory.user("pydantic"), place),
                *await claude_races("Claude memory tool", claude, MemoryTool(claude), nothing, place),
                *await claude_races("Anthropic SDK tool", runner, AsyncMemoryTool(runner).call, NoFiles().call, place),
                *await llama_index_races(memory.user("llama-index")),
            ]
            figures = []
            for race in races:
                say(f"{race.adapter}: {race.action}")
                await run(race, 10)
                figures.append(await run(race, given.rounds))
    header = [
        "adapter",
        "action",
        "CPU us",
        "wrapped",
        "framework",
        "own",
        "more",
        "added",
        "p50 us",
        "own p50",
        "beside",
    ]
    print(table("An adapter beside the call that it wraps, and the framework's own", header, list(shown(figures))))
    over = [f"{each['adapter']}, {each['action']}" for each in figures if each["overhead"] > AIM]
    print(f"Above {AIM:.0%}: {'; '.join(over) or 'none'}.")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
