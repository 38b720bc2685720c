# python examples/assistant.py
"""An assistant that remembers across sessions, without a model."""

from __future__ import annotations

import asyncio
from typing import Any

from recollect import Memory

Messages = list[dict[str, Any]]


async def stand_in(messages: Messages) -> str:
    """Stands in for a model: repeats what the memory put in front of it."""
    given = [line for message in messages for line in message["content"].splitlines()]
    remembered = [line for line in given if line.startswith("- ")]
    return f"I remember {len(remembered)} things." if remembered else "Nice to meet you."


async def turn(memory: Memory, session: str, said: str) -> str:
    """One turn of a conversation: context, answer, store."""
    chat = memory.user("ann").session(session, agent="assistant")
    context = await chat.get_context(said, max_tokens=2_000)
    answer = await stand_in(context.messages)
    await chat.add_interaction(said, answer)
    return answer


async def main() -> None:
    async with Memory.open("sqlite:///assistant.db") as memory:
        print("monday: ", await turn(memory, "monday", "I'm Ann, and I am allergic to peanuts."))
    async with Memory.open("sqlite:///assistant.db") as memory:  # as after a restart
        print("tuesday:", await turn(memory, "tuesday", "What should Ann not eat?"))


if __name__ == "__main__":
    asyncio.run(main())
