"""What a question and a turn cost in total with the default embedder, in CPU, which a busy machine does not change.

A question is embedded, compared with every memory by words, meaning and all features of a turn, and explained. A turn
is stored, embedded, rated and analysed for whatever else is learned from it.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from timing import Samples, aim, say, table

from recollect import Memory
from recollect.interfaces.bench import sentences

TURNS = 5_000
SESSION_TURNS = 20
BATCH = 20
QUESTIONS = 100
CONTEXT_TOKENS = 4_000
TOLD = 200
CHATTED, REPLY_SENTENCES = 200, (12, 25)
"""Turns of a chat in which the assistant writes at length, and how much it writes each time."""
STARTS = 15
SEARCH_CPU_MS, CONTEXT_RATIO, TURNS_PER_S, ENRICH_CPU_MS = 5.0, 5.0, 1_000.0, 5.0
"""The targets."""
_ASKED = (
    "Who {did} the {what} in {where}?",
    "When did {who} say that the {what} was in {where}?",
    "What did you tell me about the {what} that {who} {did}?",
    "How many times has {who} been in {where} with a {what}?",
)
_SAID = (
    "I live in {where} with my sister {who}, and we just bought a {what}.",
    "I work as a nurse in {where}. My colleague {who} {did} the {what} yesterday.",
    "My favourite thing is the {what}, but {who} hates it. I moved to {where} last month.",
    "I'm vegetarian and allergic to peanuts, can you plan a weekend in {where} with {who}?",
    "Could you compare the {what} with the one that {who} {did}? I'd like something cheaper.",
)
_WORDS = {
    "who": ["Ann", "Ben", "Chloe", "Dora", "Emil", "Farah", "Goran", "Hana"],
    "did": ["painted", "sold", "lost", "repaired", "borrowed", "photographed", "baked", "found", "planted"],
    "what": ["bicycle", "lighthouse", "cello", "teapot", "telescope", "orchard", "violin", "sailboat", "lantern"],
    "where": ["Lisbon", "Oslo", "Kyoto", "Quito", "Tartu", "Cork", "Naples", "Bergen", "Riga", "Hobart"],
}


def turns(reply: tuple[int, int] = (3, 8)) -> Iterator[dict[str, str]]:
    """A conversation with an assistant: one or two sentences, then a reply of three to eight unless told otherwise."""
    text, chance = sentences(), random.Random(11)
    while True:
        yield {"role": "user", "content": " ".join(islice(text, chance.randint(1, 2)))}
        yield {"role": "assistant", "content": " ".join(islice(text, chance.randint(*reply)))}


def questions(count: int) -> list[str]:
    chance = random.Random(13)
    return [
        chance.choice(_ASKED).format(**{name: chance.choice(words) for name, words in _WORDS.items()})
        for _ in range(count)
    ]


async def run(folder: Path) -> dict[str, Any]:
    """Add turns, search, and build contexts; print the tables and return the figures."""
    say(f"costs: {TURNS:,} turns with the default embedder")
    async with Memory.open(f"sqlite:///{folder}/costs.db", worker=False) as memory:
        user = memory.user("ann")
        told, started = turns(), time.process_time()
        for number in range(TURNS // BATCH):
            session = user.session(f"session-{number * BATCH // SESSION_TURNS}")
            await session.add_messages(list(islice(told, BATCH)))
        await memory.work()
        turns_per_s = TURNS / (time.process_time() - started)
        search, context = Samples(), Samples()

        async def explained(question: str) -> list[str]:
            hits = await user.search_memory(question, limit=10)
            return [hit.explain() for hit in hits]

        for number, question in enumerate(questions(QUESTIONS + 1)):
            measured = (search, context) if number else (Samples(), Samples())  # the first one loads the index
            await measured[0].measure(lambda asked=question: explained(asked))  # type: ignore[misc]
            await measured[1].measure(
                lambda asked=question: user.get_context(asked, max_tokens=CONTEXT_TOKENS)  # type: ignore[misc]
            )
        learned, chat = await learning(memory), await chatting(memory)
    return show(turns_per_s, search, context) | show_learning(*learned) | show_chat(*chat) | show_starting(folder)


async def chatting(memory: Memory) -> tuple[Samples, Samples]:
    """A search and a context for each turn of a chat with long replies, as an assistant asks for them."""
    user, said = memory.user("eve"), turns(REPLY_SENTENCES)
    search, context = Samples(), Samples()
    for number in range(CHATTED):
        chat = user.session(f"chat-{number // SESSION_TURNS}")
        asked, reply = next(said)["content"], next(said)["content"]
        await search.measure(lambda asked=asked: user.search_memory(asked, limit=10))  # type: ignore[misc]
        await context.measure(
            lambda asked=asked, chat=chat: chat.get_context(asked, max_tokens=CONTEXT_TOKENS)  # type: ignore[misc]
        )
        await chat.add_interaction(asked, reply)
        await memory.work()
    return search, context


def show_chat(search: Samples, context: Samples) -> dict[str, Any]:
    search_ms, context_ms = search.figures().cpu_ms, context.figures().cpu_ms
    rows = [
        ["search after each turn", f"{search_ms:.2f} ms", "reads the new turn first"],
        [f"context of {CONTEXT_TOKENS:,} tokens", f"{context_ms:.2f} ms", f"{context_ms / search_ms:.1f}x the search"],
    ]
    title = f"costs in a chat of {CHATTED} turns with replies of {REPLY_SENTENCES[0]} to {REPLY_SENTENCES[1]} sentences"
    print(table(title, ["", "CPU", "that is"], rows), flush=True)
    return {"chat_search_cpu_ms": search_ms, "chat_context_cpu_ms": context_ms}


async def learning(memory: Memory) -> tuple[float, float]:
    """CPU of an add, and of all that follows it in the background, for turns that say something about the user."""
    chat = memory.user("ben").session("about me")
    chance, added_ns, behind_ns = random.Random(17), 0, 0
    for _ in range(TOLD):
        text = chance.choice(_SAID).format(**{name: chance.choice(words) for name, words in _WORDS.items()})
        started = time.process_time_ns()
        await chat.add_interaction(text, "I see. Tell me more about it.")
        stored = time.process_time_ns()
        await memory.work()
        added_ns, behind_ns = added_ns + stored - started, behind_ns + time.process_time_ns() - stored
    return added_ns / TOLD / 1e6, behind_ns / TOLD / 1e6


def show_learning(add_ms: float, enrich_ms: float) -> dict[str, Any]:
    rows = [
        ["a user's turn and its answer, added", f"{add_ms:.2f} ms", "does not wait for enrichment", ""],
        ["learning from it, in the background", f"{enrich_ms:.2f} ms", "facts, entities, embedding, episode job", ""],
    ]
    rows[1][3] = aim(f"{ENRICH_CPU_MS:g} ms", enrich_ms <= ENRICH_CPU_MS)
    print(table("costs of learning without a model", ["", "CPU", "that is", "aim"], rows), flush=True)
    return {"add_cpu_ms": add_ms, "enrich_cpu_ms": enrich_ms}


def show_starting(folder: Path) -> dict[str, Any]:
    """What importing the package costs a program, beside a Python that does nothing."""
    programs = {
        "Python alone": "pass",
        "import recollect": "import recollect",
        "from recollect import Memory": "from recollect import Memory",
    }
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(STARTS):
        for name, program in programs.items():
            taken[name].append(start_cpu_ms(program, folder / "compiled"))
    each = {name: statistics.median(times) for name, times in taken.items()}
    bare = each["Python alone"]
    rows = [[name, f"{cpu_ms:.0f} ms", f"{cpu_ms / bare:.1f}x Python alone"] for name, cpu_ms in each.items()]
    print(table("costs of starting a program", ["", "CPU", "that is"], rows), flush=True)
    return {"start_cpu_ms": each}


def start_cpu_ms(program: str, compiled: Path) -> float:
    """The CPU that a new Python process takes for this, from start to end. Modules are compiled once, as usual."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment | {"PYTHONPYCACHEPREFIX": str(compiled)}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def show(turns_per_s: float, search: Samples, context: Samples) -> dict[str, Any]:
    search_ms, context_ms = search.figures().cpu_ms, context.figures().cpu_ms
    ratio = context_ms / search_ms
    p95_ms = statistics.quantiles(search.cpu_ns, n=20)[-1] / 1e6
    rows = [
        [f"search of {TURNS:,} turns, explained", f"{search_ms:.2f} ms", f"{p95_ms:.2f} ms at p95"],
        [f"context of {CONTEXT_TOKENS:,} tokens", f"{context_ms:.2f} ms", f"{ratio:.1f}x the search"],
        ["a turn, stored and enriched", f"{1000 / turns_per_s:.2f} ms", f"{turns_per_s:,.0f} turns a second"],
    ]
    rows[0].append(aim(f"{SEARCH_CPU_MS:g} ms", search_ms <= SEARCH_CPU_MS))
    rows[1].append(aim(f"{CONTEXT_RATIO:g}x", ratio <= CONTEXT_RATIO))
    rows[2].append(aim(f"{TURNS_PER_S:,.0f} a second", turns_per_s >= TURNS_PER_S))
    print(table("costs with the default embedder", ["", "CPU", "that is", "aim"], rows), flush=True)
    return {
        "search_cpu_ms": search_ms, "search_cpu_p95_ms": p95_ms, "context_cpu_ms": context_ms,
        "context_ratio": ratio, "turns_per_s": turns_per_s,
    }  # fmt: skip
