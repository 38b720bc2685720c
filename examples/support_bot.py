# python examples/support_bot.py
"""A support bot over a month: what it knows about a customer each time they come back, and how it learned that.

Two customers write to a kite shop. No model is used: the answers are scripted, and what is shown is what a model would
be given. The clock is set by hand, so that a month takes a second.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import NamedTuple

from recollect import Memory
from recollect.testing.fakes import ManualClock
from recollect.user import User

ORG, AGENT = "kites", "support"


class Turn(NamedTuple):
    """What a customer said on a day in March 2026, and the answer."""

    day: int
    customer: str
    said: str
    answer: str


MONTH = (
    Turn(2, "bea", "Hi, I'm Bea. My order K-1042 has not arrived.", "It was shipped on Friday, Bea."),
    Turn(3, "bea", "I live in Tarifa, so it may take a day longer.", "Then Wednesday is likely."),
    Turn(3, "carl", "I'm Carl. Keep your answers short, please.", "Will do."),
    Turn(5, "bea", "It is here, but the bar is bent.", "I am sorry. Shall we send another 9 metre kite?"),
    Turn(5, "bea", "No, I meant the bar, not the kite.", "Of course: a new bar is on its way."),
    Turn(9, "carl", "Which harness fits a beginner?", "A seat harness."),
    Turn(16, "bea", "I moved to Cascais last week. Do you deliver there?", "Yes, in two days."),
    Turn(23, "bea", "Thanks, the bar works. Next I want a 12 metre kite.", "The Mistral 12 is in stock from April."),
)
QUESTION = "Where do we send order K-1107, and what went wrong last time?"


async def replay(memory: Memory, clock: ManualClock) -> None:
    """Replay the month, each conversation at its time; the shop adds what it learned itself."""
    org = memory.org(ORG)
    await org.customizations.add("Be kind, and name the order.", id="manners")
    for turn in MONTH:
        clock.now_ms = int(datetime(2026, 3, turn.day, 9, tzinfo=UTC).timestamp() * 1000)
        chat = memory.user(turn.customer, org=ORG).session(f"march-{turn.day}", agent=AGENT)
        await chat.add_interaction(turn.said, turn.answer)
        await memory.work()
    await org.learnings.add("Bent bars are replaced without a photo.", type="pattern", confidence=0.9)
    clock.advance(days=6)
    await memory.work()
    order = {"item": "Mistral 12", "status": "reserved", "customer": "bea"}
    await memory.entities(ORG).put("order", "K-1107", order)  # a business object is kept for an hour


async def show(bea: User, carl: User) -> None:
    heading("What is known about Bea at the end of the month")
    for fact in (await bea.profile()).facts:
        print(f"{fact.key}: {fact.value}")
    heading("Where she lived, and since when")
    for fact in await bea.facts.history("city"):
        print(f"{fact.value}: {day(fact.valid_from)} to {day(fact.valid_to)}")
    heading("How Carl wants to be answered")
    print((await carl.profile()).preferences)
    heading(f"What the bot is given on 29 March, asked: {QUESTION}")
    chat = bea.session("march-29", agent=AGENT)
    print((await chat.get_context(QUESTION, max_tokens=800)).system)


async def forget(carl: User) -> None:
    """Carl asks to be forgotten."""
    receipt = await carl.erase()
    heading("Carl is forgotten")
    print(f"{receipt.count} records erased; sessions left: {len(await carl.sessions())}")


def heading(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def day(moment: datetime | None) -> str:
    return f"{moment.day} {moment:%B}" if moment else "now"


async def main() -> None:
    clock = ManualClock()
    async with Memory.open("memory://", clock=clock, worker=False) as memory:
        await replay(memory, clock)
        bea, carl = memory.user("bea", org=ORG), memory.user("carl", org=ORG)
        await show(bea, carl)
        await forget(carl)


if __name__ == "__main__":
    asyncio.run(main())
