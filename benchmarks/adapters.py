"""What an adapter costs: `make bench-adapters`.

Three callers take turns, call by call, so that a busy machine is busy for all of them: the adapter, the call
of the memory that it wraps with everything prepared, and the framework's own way of keeping the same. All that
write to disk write to a file in the same folder. CPU says more than times here: what an `fsync` takes is the disk's
matter, and the same for the adapter and for what it wraps.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.memory import SQLiteSession
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.memory import InMemoryStore
from llama_index.core.base.llms.types import ChatMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from timing import Samples, say, table

from recollect import Memory
from recollect.adapters import langchain, langgraph, openai_agents
from recollect.adapters.claude import MemoryTool
from recollect.adapters.langgraph_shape import item_draft, item_id
from recollect.adapters.llama_index import MemoryBlock
from recollect.adapters.pydantic_ai import Store as PydanticStore
from recollect.importers.langchain import to_stored as langchain_stored
from recollect.memory import Session, User

warnings.simplefilter("ignore")
try:
    from langgraph.store.sqlite import AsyncSqliteStore
except ImportError:
    AsyncSqliteStore = None

AIM = 0.20
"""How much more CPU than the call it wraps an adapter may take."""
HELD = 50
"""Messages or items that are there when reading begins, and that each read gives."""
QUESTION = "Which boat did I want to look at?"

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Race:
    """One thing that is done, by the adapter, by the memory alone, and by the framework's own."""

    adapter: str
    action: str
    ours: Call
    wrapped: Call
    own: Call
    own_name: str


def turn(number: int) -> tuple[str, str]:
    """What a user says and an assistant answers, of the length of usual chat."""
    asked = f"Turn {number}: could you remind me which of the boats in the harbour I wanted to look at on Sunday?"
    return asked, f"Turn {number}: the green one at the second pier, because its cabin has room for two and a dog."


# ── the races ────────────────────────────────────────────────────────────────────────────────────


async def langchain_races(user: User, folder: Path) -> list[Race]:
    numbers = itertools.count()

    def said() -> list[Any]:
        asked, answered = turn(next(numbers))
        return [HumanMessage(asked), AIMessage(answered)]

    stored = [langchain_stored({"type": each.type, "data": each.model_dump()}) for each in said()]
    ours, own = langchain.ChatMessageHistory(user.session("lc")), InMemoryChatMessageHistory()
    plain, reading = user.session("lc-plain"), user.session("lc-read")
    held = langchain.ChatMessageHistory(reading)
    for _ in range(HELD // 2):
        await held.aadd_messages(said())
    own_held = InMemoryChatMessageHistory(messages=await held.aget_messages())
    return [
        Race("LangChain history", "add a turn", lambda: ours.aadd_messages(said()),
             lambda: plain.add_messages(stored), lambda: own.aadd_messages(said()), "InMemoryChatMessageHistory"),
        Race("LangChain history", f"read {HELD}", held.aget_messages, lambda: read_all(reading),
             own_held.aget_messages, "InMemoryChatMessageHistory"),
    ]  # fmt: skip


async def read_all(session: Session) -> Any:
    return (await session.messages(limit=1_000))[0]


async def agents_races(user: User, folder: Path) -> list[Race]:
    numbers = itertools.count()

    def items() -> list[Any]:
        asked, answered = turn(next(numbers))
        part = {"type": "output_text", "text": answered, "annotations": []}
        answer = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return [{"role": "user", "content": asked}, answer]

    stored = [openai_agents.to_stored(item) for item in items()]
    ours, held = openai_agents.Session(user, "oa"), openai_agents.Session(user, "oa-read")
    own, own_held = SQLiteSession("a", folder / "agents.db"), SQLiteSession("b", folder / "agents.db")
    plain, reading = user.session("oa-plain"), user.session("oa-read")
    for _ in range(HELD // 2):
        await held.add_items(items())
        await own_held.add_items(items())
    return [
        Race("OpenAI Agents session", "add a turn", lambda: ours.add_items(items()),
             lambda: plain.add_messages(stored), lambda: own.add_items(items()), "SQLiteSession"),
        Race("OpenAI Agents session", f"read {HELD}", held.get_items, lambda: read_all(reading),
             own_held.get_items, "SQLiteSession"),
    ]  # fmt: skip


async def langgraph_races(memory: Memory, folder: Path, stack: AsyncExitStack) -> list[Race]:
    user = memory.user("langgraph")
    numbers = itertools.count()
    ours: Any = langgraph.Store(memory)
    own: Any = InMemoryStore()
    if AsyncSqliteStore is not None:
        own = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(str(folder / "graph.db")))
        await own.setup()
    name, place = type(own).__name__, ("memories",)

    def value() -> dict[str, Any]:
        return {"text": turn(next(numbers))[0]}

    def drafted() -> dict[str, Any]:
        given = value()
        number = str(next(numbers))
        return item_draft(("plain",), number, given, given["text"], now=0) | {"id": item_id(("plain",), number)}

    for store in (ours, own):
        for number in range(HELD):
            await store.aput(place, str(number), value())
    id = item_id(place, "7")
    under = {"metadata.store_path": {"gte": "memories.", "lt": "memories/"}}
    return [
        Race("LangGraph store", "put", lambda: ours.aput(("new",), str(next(numbers)), value()),
             lambda: user.add_memories([drafted()]), lambda: own.aput(("new",), str(next(numbers)), value()), name),
        Race("LangGraph store", "get", lambda: ours.aget(place, "7"), lambda: user.get_memories([id]),
             lambda: own.aget(place, "7"), name),
        Race("LangGraph store", "list 10", lambda: ours.asearch(place, limit=10),
             lambda: user.list_memories(where=under, limit=10),
             lambda: own.asearch(place, limit=10), name),
    ]  # fmt: skip


async def pydantic_races(user: User, folder: Path) -> list[Race]:
    ours, own = PydanticStore(user), InMemoryConversationStore()
    plain, reading = user.session("pa-plain"), user.session("pa-read")
    numbers = itertools.count()

    def said() -> list[Any]:
        asked, answered = turn(next(numbers))
        return [ModelRequest([UserPromptPart(asked)]), ModelResponse([TextPart(answered)])]

    async def add(store: Any) -> None:
        await store.save(Conversation(conversation_id=f"c{next(numbers)}", messages=said()))

    async def add_plain() -> None:
        asked, answered = turn(next(numbers))
        await plain.add_messages([{"role": "user", "content": asked}, {"role": "assistant", "content": answered}])

    long = Conversation(conversation_id="pa-read", messages=[each for _ in range(HELD // 2) for each in said()])
    await ours.save(long)
    await own.save(Conversation(conversation_id="pa-read", messages=list(long.messages)))
    return [
        Race("Pydantic AI store", "save a new one", lambda: add(ours), add_plain, lambda: add(own), "in memory"),
        Race("Pydantic AI store", f"load {HELD}", lambda: ours.load("pa-read"), lambda: read_all(reading),
             lambda: own.load("pa-read"), "in memory"),
    ]  # fmt: skip


async def other_races(user: User, folder: Path) -> list[Race]:
    """Adapters whose frameworks have no store of their own to compare with but a file, or nothing."""
    tool = MemoryTool(user)
    numbers = itertools.count()
    await tool({"command": "create", "path": "/memories/notes", "file_text": turn(0)[0]})
    id = (await user.list_memories(where={"metadata.memory_path": "/memories/notes"}))[0][0].id
    block = MemoryBlock(user=user, session_id="li")
    asked = [ChatMessage(role="user", content=QUESTION)]
    note = folder / "notes"
    note.write_text(turn(0)[0])

    async def create() -> Any:
        number = next(numbers)
        return await tool({"command": "create", "path": f"/memories/{number}", "file_text": turn(number)[0]})

    async def write_file() -> None:
        number = next(numbers)
        (folder / f"note-{number}").write_text(turn(number)[0])

    async def read_file() -> str:
        return note.read_text()

    return [
        Race("Claude memory tool", "create", create, lambda: user.add_memory(turn(next(numbers))[0]), write_file,
             "a file"),
        Race("Claude memory tool", "view", lambda: tool({"command": "view", "path": "/memories/notes"}),
             lambda: user.get_memories([id]), read_file, "a file"),
        Race("LlamaIndex block", "context", lambda: block._aget(asked),
             lambda: user.get_context(QUESTION, max_tokens=block.max_tokens), read_file, "none"),
    ]  # fmt: skip


# ── running and telling ──────────────────────────────────────────────────────────────────────────


async def run(race: Race, rounds: int) -> dict[str, Any]:
    """Let the three take turns; who begins changes every turn."""
    calls = [race.ours, race.wrapped, race.own]
    samples = [Samples() for _ in calls]
    for number in range(rounds):
        for place in range(3):
            chosen = (place + number) % 3
            await samples[chosen].measure(calls[chosen])
    cpu = [statistics.median(each.cpu_ns) / 1e3 for each in samples]
    wall = [statistics.median(each.wall_ns) / 1e3 for each in samples]
    names = ("adapter", "wrapped", "own")
    return (
        {"adapter": race.adapter, "action": race.action, "beside": race.own_name}
        | {f"{name}_cpu_us": round(each, 1) for name, each in zip(names, cpu, strict=True)}
        | {f"{name}_us": round(each, 1) for name, each in zip(names, wall, strict=True)}
        | {"overhead": round(cpu[0] / cpu[1] - 1, 3), "overhead_us": round(cpu[0] - cpu[1], 1)}
    )


def shown(figures: list[dict[str, Any]]) -> Iterator[list[str]]:
    for each in figures:
        cpu = [f"{each[f'{name}_cpu_us']:,.0f}" for name in ("adapter", "wrapped", "own")]
        yield [each["adapter"], each["action"], *cpu, f"{each['overhead']:+.0%}", f"{each['adapter_us']:,.0f}",
               f"{each['own_us']:,.0f}", each["beside"]]  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with AsyncExitStack() as stack:
            memory = await stack.enter_async_context(Memory.open(f"sqlite:///{place}/recollect.db", worker=False))
            races = [
                *await langchain_races(memory.user("langchain"), place),
                *await agents_races(memory.user("agents"), place),
                *await langgraph_races(memory, place, stack),
                *await pydantic_races(memory.user("pydantic"), place),
                *await other_races(memory.user("others"), place),
            ]
            figures = []
            for race in races:
                say(f"{race.adapter}: {race.action}")
                await run(race, 10)
                figures.append(await run(race, given.rounds))
    header = ["adapter", "action", "CPU us", "wrapped", "own", "overhead", "p50 us", "own p50", "beside"]
    print(table("An adapter beside the call that it wraps, and the framework's own", header, list(shown(figures))))
    over = [f"{each['adapter']}, {each['action']}" for each in figures if each["overhead"] > AIM]
    print(f"Above {AIM:.0%}: {'; '.join(over) or 'none'}.")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
