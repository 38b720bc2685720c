"""The index beside the store against the built-in one: do the same questions and memories give the same answers?

    python benchmarks/indexes.py                                  Chroma in a folder
    python benchmarks/indexes.py --index chroma+http://localhost:8000 --memories 20000

Both hold the same texts and vectors, and take turns, question by question.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from contextlib import AsyncExitStack
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataset import World, user_name
from peers import Lookup
from peers.recollect import ORG, Precomputed
from timing import Samples, say, table

from recollect import Memory

K = 10
DIMENSIONS = 256
OVERLAP_MIN = 0.98
"""The share of the first ten hits that must be the same."""


async def compare(index: str, memories: int, users: int, questions: int) -> tuple[dict[str, Samples], float, float]:
    """The timings of each, the share of the first ten hits that were the same, and how often the first hit was."""
    world, lookup = World(1, DIMENSIONS), Lookup()
    rows = {number: world.memories(number, memories // users) for number in range(users)}
    asked = [q for number in range(users) for q in world.questions(number, memories // users, questions // users)]
    for each in (*(row for own in rows.values() for row in own), *((q.text, q.text, q.vector) for q in asked)):
        lookup.learn(each[1], each[2])
    samples = {"built in": Samples(), "beside": Samples()}
    same = first = 0.0
    async with AsyncExitStack() as stack:
        opened = {}
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, chosen in (("built in", ""), ("beside", index or f"chroma:///{folder}/vectors")):
            say(f"{memories} memories, {name}")
            memory = Memory.open(f"sqlite:///{folder}/{name}.db", embedder=Precomputed(lookup, DIMENSIONS),
                                 index=chosen, worker=False)  # fmt: skip
            opened[name] = await stack.enter_async_context(memory)
            for number, own in rows.items():
                user = opened[name].user(user_name(number), org=ORG)
                for start in range(0, len(own), 90):
                    await user.add_memories([
                        {"content": text, "id": id, "importance": 0.5} for id, text, _ in own[start : start + 90]
                    ])  # fmt: skip
            await opened[name].work()
        for question in asked:
            found = {}
            for name, memory in opened.items():
                user = memory.user(question.user, org=ORG)
                hits = await samples[name].measure(partial(user.search_memory, question.text, limit=K))
                found[name] = [hit.id for hit in hits]
            same += len(set(found["built in"]) & set(found["beside"])) / len(found["built in"]) / len(asked)
            first += (found["built in"][0] == found["beside"][0]) / len(asked)
        assert opened["beside"].describe()["vectors"]["state"] == "in use"
    return samples, same, first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", default="", help="the index's URL; by default a new Chroma in a folder")
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--questions", type=int, default=200)
    chosen = parser.parse_args()
    samples, same, first = asyncio.run(compare(chosen.index, chosen.memories, chosen.users, chosen.questions))
    rows = [
        [name, f"{(figures := each.figures()).p50_ms:.2f}", f"{figures.p95_ms:.2f}", f"{figures.cpu_ms:.2f}"]
        for name, each in samples.items()
    ]
    title = f"search of {chosen.memories:,} memories of {chosen.users} users, ms"
    print(table(title, ["index", "p50", "p95", "CPU"], rows))
    print(
        f"of the first {K} hits {same:.1%} are the same, the first hit in {first:.1%} of {chosen.questions} questions"
    )
    raise SystemExit(same < OVERLAP_MIN)


if __name__ == "__main__":
    main()
