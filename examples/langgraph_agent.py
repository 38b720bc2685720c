# pip install ".[langgraph]" && python examples/langgraph_agent.py
"""A LangGraph graph that remembers: the store keeps what the graph puts into it, and search finds it by meaning.

Needs no model and no key: the node that would call a model is a stand-in, and says so.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

from recollect import Memory
from recollect.adapters.langgraph import Store


class State(TypedDict, total=False):
    said: str
    remembered: list[str]
    answer: str


async def recall(state: State, config: RunnableConfig, *, store: BaseStore) -> State:
    """Look up what the store knows about what was said."""
    namespace = ("memories", config["configurable"]["user"])
    return {"remembered": [item.value["text"] for item in await store.asearch(namespace, query=state["said"], limit=3)]}


async def answer(state: State) -> State:
    """Stands in for a model."""
    known = "; ".join(state["remembered"]) or "nothing yet"
    return {"answer": f"(a stand-in: I remember {known})"}


async def remember(state: State, config: RunnableConfig, *, store: BaseStore) -> State:
    """Store what was said, unless it is a question."""
    if not state["said"].endswith("?"):
        await store.aput(("memories", config["configurable"]["user"]), str(uuid4()), {"text": state["said"]})
    return {}


def graph_on(store: BaseStore) -> Any:
    builder = StateGraph(State)
    builder.add_node(recall)
    builder.add_node(answer)
    builder.add_node(remember)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answer")
    builder.add_edge("answer", "remember")
    return builder.compile(store=store)


async def main() -> None:
    async with Memory.open("sqlite:///langgraph.db") as memory:
        graph = graph_on(Store(memory, user_segment=1))
        for user, said in (
            ("ann", "I am allergic to peanuts."),
            ("bob", "I eat everything."),
            ("ann", "Which snack may I have?"),
        ):
            told = await graph.ainvoke({"said": said}, {"configurable": {"user": user}})
            print(f"{user}: {said}\n  {told['answer']}")
        hits = await memory.user("ann").search_memory("allergies")
        print(f"The memory itself has it too: {hits[0].content}")


if __name__ == "__main__":
    asyncio.run(main())
