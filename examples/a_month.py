# python examples/a_month.py
"""A month of conversations, replayed: what is known at the end, every change of mind, what was true in between."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from recollect import Memory
from recollect.profile import Fact, Profile
from recollect.testing.fakes import ManualClock
from recollect.user import User

USER = "teodora"
YEAR = 2026
CHANGED = ("nickname", "city", "occupation", "employer", "pet", "hobby")
"""Facts that were changed or corrected later."""
LOOKS_BACK = ("2026-03-05", "2026-03-18", "2026-03-24")
QUESTION = "Plan my Saturday."

_BEGINS = re.compile(r"== (?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d) (?P<name>\S+)")


class Talk(NamedTuple):
    """One session: its name, when it began, and who said what."""

    name: str
    begins: datetime
    messages: list[tuple[str, str]]


def talks() -> Iterator[Talk]:
    """The sessions of the month, from the text beside this file."""
    text = Path(inspect.getfile(talks)).with_name("a_month.txt").read_text(encoding="utf-8")
    talk: Talk | None = None
    for line in text.splitlines():
        if begins := _BEGINS.match(line):
            if talk:
                yield talk
            month, day, hour, minute = (int(begins[part]) for part in ("month", "day", "hour", "minute"))
            talk = Talk(begins["name"], datetime(YEAR, month, day, hour, minute, tzinfo=UTC), [])
        elif talk and line.startswith(" "):
            role, said = talk.messages.pop()
            talk.messages.append((role, f"{said}\n{line.strip()}"))
        elif talk and line:
            role, _, said = line.partition(": ")
            talk.messages.append((role, said))
    if talk:
        yield talk


async def replay(memory: Memory, clock: ManualClock) -> User:
    """Replay every message at its time, one minute apart, and process them after each session."""
    user = memory.user(USER)
    for talk in talks():
        chat = user.session(talk.name)
        for minutes, (role, said) in enumerate(talk.messages):
            now = talk.begins + timedelta(minutes=minutes)
            clock.now_ms = int(now.timestamp() * 1000)
            await chat.add_message(role, said)
        await memory.work()
    clock.advance(hours=12)
    await memory.work()
    return user


# ── What is shown ────────────────────────────────────────────────────────────────────────────────


async def main() -> None:
    clock = ManualClock()
    async with Memory.open("memory://", clock=clock, worker=False) as memory:
        user = await replay(memory, clock)
        heading("What is known at the end of the month")
        show(await user.profile())
        heading("Changes of mind")
        for key in CHANGED:
            print(f"{key}:")
            for fact in await user.facts.history(key):
                print(f"  {spell(fact)}")
        print("verbosity, a setting:")
        for fact in await user.preferences.history("verbosity"):
            print(f"  {spell(fact)}")
        for day in LOOKS_BACK:
            heading(f"What was true on {day}")
            show(await user.profile(as_of=day))
        heading(f"What a model is given when she comes back and says: {QUESTION}")
        print((await user.session("april").get_context(QUESTION, max_tokens=1_000)).system)


def heading(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def show(profile: Profile) -> None:
    notes: dict[str, list[str]] = {}
    for fact in profile.facts:
        notes.setdefault(fact.key.replace("_", " "), []).append(fact.value)
    for key, value in profile.preferences.items():
        notes.setdefault("prefers", []).append(f"{value} {key}")
    for what, values in notes.items():
        print(f"{what:<15} {', '.join(values)}")


def spell(fact: Fact) -> str:
    if fact.status in ("corrected", "rejected"):
        return f"{fact.value}: was never true"
    return f"{fact.value}: {day(fact.valid_from, 'ever')} to {day(fact.valid_to, 'now')}"


def day(moment: datetime | None, otherwise: str) -> str:
    return f"{moment.day} {moment:%B}" if moment else otherwise


if __name__ == "__main__":
    asyncio.run(main())
