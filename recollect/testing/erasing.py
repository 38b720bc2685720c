"""Write a canary through every way in, erase, and search every byte that is left for a copy of it.

    python -m recollect.testing.erasing

Each way in gets a canary of its own, so that a remaining copy says how it came in. The search knows nothing
about the store: it reads the files byte by byte, including the log, and everything that was logged, and looks for
the canary as it is, in UTF-16, in hexadecimal digits, in base64 and inside compressed streams. A way whose
canary was not in the files before proves nothing, and fails the drill just as a remaining copy does.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import string
import sys
import tempfile
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from recollect.errors import NotFound
from recollect.layers import PUBLIC_LAYERS
from recollect.memory import Memory
from recollect.providers import Floats
from recollect.session import Session
from recollect.testing.fakes import HashingEmbedder, ManualClock
from recollect.testing.hearing import hearing
from recollect.trust import Trust
from recollect.user import User

STEM_LETTERS = 12
TWINS = 64
"""Identical memories added at the same time."""
UNREADABLE = "unreadable"
BOBS = 50
"""Messages that another user writes meanwhile."""
INFLATED_BYTES = 1_000_000
ZLIB_HEADS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


# ── the ways in ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a canary is written: a user with a conversation."""

    memory: Memory
    user: User
    chat: Session

    @property
    def trust(self) -> Trust:
        flow = self.user._flow
        return Trust(flow.ledger, flow.indexes, self.user._scope)


Way = Callable[[Stage, str], Awaitable[object]]


def _said(canary: str) -> str:
    return f"I decided that {canary} comes first."


async def _tool_call(stage: Stage, canary: str) -> None:
    call = {"id": "call1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"for": canary})}}
    await stage.chat.add_message("assistant", None, tool_calls=[call])
    await stage.chat.add_message("tool", "nothing there", tool_call_id="call1")


async def _tool_result(stage: Stage, canary: str) -> None:
    call = {"id": "call2", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await stage.chat.add_message("assistant", None, tool_calls=[call])
    await stage.chat.add_message("tool", canary, tool_call_id="call2")


async def _branch(stage: Stage, canary: str) -> None:
    root = stage.user.session("root")
    told = await root.add_message("user", canary)
    await root.branch(told.id, "branch")


async def _summary(stage: Stage, canary: str) -> None:
    chat = stage.user.session("long")
    await chat.add_message("user", _said(canary))
    for number in range(8):
        await chat.add_interaction(f"question {number} about this", f"answer {number} about that")
    await chat.compress()


async def _edited(stage: Stage, canary: str) -> None:
    added = await stage.user.add_memory(f"The locker is {canary}.")
    await stage.user.update_memory(added.id, content="The locker is open.")


async def _merged(stage: Stage, canary: str) -> None:
    text = f"My sister Clara lives in Lisbon with two cats, a parrot, {canary} and a very old piano"
    await stage.user.add_memory(text)
    await stage.memory.work()
    await stage.user.add_memory(text.replace("lives", "really lives"))


async def _imported(stage: Stage, canary: str) -> None:
    await stage.user.import_records([{"id": "brought", "layer": "long_term", "content": f"Brought along: {canary}"}])


async def _learned(stage: Stage, canary: str) -> None:
    await stage.user.session("told").add_message("user", f"My name is {canary.capitalize()}{canary}.")
    await stage.memory.work()


async def _changed_fact(stage: Stage, canary: str) -> None:
    await stage.user.add_fact("locker", canary)
    await stage.user.add_fact("locker", "open")


async def _corrected_fact(stage: Stage, canary: str) -> None:
    await stage.user.add_fact("badge", "blue")
    await stage.user.facts.correct("badge", "green", reason=f"It is {canary}.")


async def _alias(stage: Stage, canary: str) -> None:
    await stage.user.graph.add_entity("Clara", type="person", aliases=[canary])


async def _relation(stage: Stage, canary: str) -> None:
    ended = await stage.user.graph.relate("user", "works_at", f"{canary} Works")
    await stage.user.graph.end_relation(ended.id)
    await stage.user.graph.relate("user", "works_at", f"{canary} Works")


async def _merged_entity(stage: Stage, canary: str) -> None:
    await stage.user.graph.add_entity("Dora", type="person")
    await stage.user.graph.add_entity(f"Dora {canary}", type="person")
    await stage.user.graph.merge("Dora", f"Dora {canary}", reason=f"both are {canary}")


async def _undone(stage: Stage, canary: str) -> None:
    await stage.user.session("strange").add_message("user", f"My name is {canary.capitalize()}{canary}.")
    await stage.memory.work()
    await stage.trust.undo(session="strange")


async def _set_aside(stage: Stage, canary: str) -> None:
    note = await stage.user.add_memory("A note to be set aside.")
    await stage.trust.quarantine(ids=[note.id], reason=canary)


WAYS: dict[str, Way] = {
    "message": lambda stage, canary: stage.chat.add_message("user", _said(canary)),
    "interaction": lambda stage, canary: stage.chat.add_interaction("And then?", _said(canary)),
    "parts": lambda stage, canary: stage.chat.add_message("user", [{"type": "text", "text": canary}]),
    "name of the speaker": lambda stage, canary: stage.chat.add_message("user", "Hello.", name=canary),
    "metadata of a message": lambda stage, canary: stage.chat.add_message("user", "Hello.", metadata={"tag": canary}),
    "id of a message": lambda stage, canary: stage.chat.add_message("user", "Hello.", id=canary),
    "key of a message": lambda stage, canary: stage.chat.add_message("user", canary, idempotency_key=canary),
    "call of a tool": _tool_call,
    "result of a tool": _tool_result,
    "id of a session": lambda stage, canary: stage.user.session(canary).add_message("user", "Hello."),
    "name of an agent": lambda stage, canary: stage.user.session("other", agent=canary).add_message("user", "Hello."),
    "title": lambda stage, canary: stage.chat.rename(f"About {canary}"),
    "branch": _branch,
    "summary": _summary,
    "working": lambda stage, canary: stage.chat.working.set({"plan": [canary]}),
    "working of the user": lambda stage, canary: stage.user.working.push("seen", canary),
    "memory": lambda stage, canary: stage.user.add_memory(f"The locker code is {canary}."),
    "metadata of a memory": lambda stage, canary: stage.user.add_memory("A note.", metadata={"label": canary}),
    "id of a memory": lambda stage, canary: stage.user.add_memory("Another note.", id=canary),
    "edited memory": _edited,
    "merged memory": _merged,
    "episode": lambda stage, canary: stage.user.add_memory(f"A day with {canary}.", layer="episodic"),
    "import": _imported,
    "fact": lambda stage, canary: stage.user.add_fact("motto", canary),
    "changed fact": _changed_fact,
    "corrected fact": _corrected_fact,
    "name of a fact": lambda stage, canary: stage.user.add_fact(canary, "so"),
    "preference": lambda stage, canary: stage.user.update_preference("greeting", canary),
    "learning": lambda stage, canary: stage.user.add_learning(f"Likes {canary} most."),
    "instruction": lambda stage, canary: stage.user.customize(f"Always say {canary}."),
    "entity": lambda stage, canary: stage.user.graph.add_entity(canary, metadata={"note": canary}),
    "alias": _alias,
    "relation": _relation,
    "merged entity": _merged_entity,
    "learned from a message": _learned,
    "undone": _undone,
    "set aside": _set_aside,
    "failed work": lambda stage, canary: stage.chat.add_message("user", f"{UNREADABLE} {canary}"),
}
"""Every way in, by name. A new one is a new row."""

WAITING = "work that still waits"
USER_ID = "id of the user"


class MoodyEmbedder(HashingEmbedder):
    """Fails on texts it cannot read, with an error that quotes them, as libraries do."""

    async def embed(self, texts: Sequence[str]) -> Floats:
        for text in texts:
            if UNREADABLE in text:
                raise RuntimeError(f"cannot embed {text!r}")
        return await super().embed(texts)


def canaries(chance: random.Random) -> dict[str, str]:
    """A unique word for each way in, all of one length."""
    stem = "".join(chance.choices(string.ascii_lowercase, k=STEM_LETTERS))
    names = (*WAYS, WAITING, USER_ID)
    letters = string.ascii_lowercase
    return {name: stem + letters[place // 26] + letters[place % 26] for place, name in enumerate(names)}


# ── the search ───────────────────────────────────────────────────────────────────────────────────


def forms(canary: str) -> list[bytes]:
    """How a canary looks in bytes: as it is (in JSON too), in UTF-16, in hexadecimal digits, in base64."""
    plain = canary.encode()
    # Three bytes become four letters, so a text inside a longer one can look three different ways.
    inner = (base64.b64encode(plain[skip : skip + (len(plain) - skip) // 3 * 3]) for skip in range(3))
    return [plain, canary.encode("utf-16-le")[:-1], plain.hex().encode(), plain.hex().upper().encode(), *inner]


def inflated(data: bytes) -> Iterator[bytes]:
    """The contents of compressed streams in the data."""
    for head in ZLIB_HEADS:
        place = data.find(head)
        while place >= 0:
            try:
                yield zlib.decompressobj().decompress(data[place:], INFLATED_BYTES)
            except zlib.error:
                pass  # two bytes that only look like the head of a stream
            place = data.find(head, place + 1)


def copies(texts: Sequence[bytes], canary: str) -> int:
    """How often a canary appears in the texts, in any of its forms."""
    looked_for = forms(canary)
    return sum(text.count(form) for text in texts for form in looked_for)


def bytes_of(folder: Path) -> list[bytes]:
    """Every file in a folder, and what is compressed inside them."""
    files = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    return [*files, *(text for data in files for text in inflated(data))]


# ── the drills ───────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Outcome:
    """Copies of each canary in the files before and after, and in what was logged at any time."""

    title: str
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    logged: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """What is wrong; empty if all is well."""
        unproven = [
            f"{way}: not in the files before, so this proves nothing" for way, n in self.before.items() if not n
        ]
        left = [f"{way}: {n} copies left" for way, n in self.after.items() if n]
        logged = [f"{way}: {n} copies in the logs" for way, n in self.logged.items() if n]
        return [*unproven, *left, *logged, *self.problems]

    def __str__(self) -> str:
        rows = [f"  {way:<24}{n:>8}{self.after.get(way, 0):>8}" for way, n in self.before.items()]
        total = f"  {'all':<24}{sum(self.before.values()):>8}{sum(self.after.values()):>8}"
        return "\n".join(
            [f"{self.title:<26}{'before':>8}{'after':>8}", *rows, total, *map("  ! {}".format, self.findings)]
        )


def counted(texts: Sequence[bytes], words: Mapping[str, str]) -> dict[str, int]:
    """The copies of each canary, by the way it came in."""
    return {way: copies(texts, canary) for way, canary in words.items()}


async def write_all(folder: Path, clock: ManualClock, words: Mapping[str, str]) -> None:
    """Write every canary, one after the other, and close: what was in the log is then in the file."""
    async with _opened(folder, clock) as memory:
        stage = _stage(memory, words)
        for name, way in WAYS.items():
            await way(stage, words[name])
        await memory.work()


def _stage(memory: Memory, words: Mapping[str, str]) -> Stage:
    user = memory.user(f"ann {words[USER_ID]}")
    return Stage(memory, user, user.session("chat", agent="support"))


def _opened(folder: Path, clock: ManualClock) -> Memory:
    return Memory.open(
        folder / "memory.db", embedder=MoodyEmbedder(), clock=clock, window_tokens=200, job_attempts_max=1, poll_s=0.05
    )


async def erase_user(folder: Path, seed: int) -> Outcome:
    """Erase a user while the worker works and another user writes; nothing is left, and the other keeps everything."""
    words = canaries(random.Random(seed))
    outcome = Outcome("erase")
    clock = ManualClock()
    with hearing() as heard:
        await write_all(folder, clock, words)
        async with _opened(folder, clock) as memory:
            stage, bob = _stage(memory, words), memory.user("bob").session("chat")
            await asyncio.gather(*(stage.chat.add_message("user", f"{words[WAITING]} {n}") for n in range(20)))
            outcome.before = counted(bytes_of(folder), words)
            told = asyncio.gather(*(bob.add_message("user", f"kept {n}") for n in range(BOBS)))
            receipt = await stage.user.erase()
            left = counted(bytes_of(folder), words)
            await told
            await memory.work()
            outcome.problems += [*await readable(stage, words), *await memory.check()]
            kept = len((await bob.messages(limit=1000))[0])
        outcome.after = counted(bytes_of(folder), words)
    outcome.logged = counted([heard.text.encode()], words)
    outcome.problems += [f"{way}: {n} copies when erase returned" for way, n in left.items() if n]
    if kept != BOBS or not receipt.compacted:
        outcome.problems.append(f"bob has {kept} of {BOBS} messages, compacted: {receipt.compacted}")
    return outcome


async def readable(stage: Stage, words: Mapping[str, str]) -> list[str]:
    """Ways whose canary a call still returns, by export, search, context or any list."""
    user = stage.user
    stem = words[USER_ID][:STEM_LETTERS]
    read: list[object] = [await user.export(), await user.sessions(), await user.failures(), await user.working.get()]
    read += [await user.search_memory(word) for word in words.values()]
    read += [await stage.chat.window(), await stage.chat.working.get(), await user.session("long").window()]
    read += [await user.profile(), await user.facts.list(), await user.learnings.list(include_retired=True)]
    read += [await user.graph.entities(), await user.graph.relations(ended=True), await user.customizations.list()]
    context = await stage.chat.get_context(f"What about {words['message']}?")
    read += [context.system, context.sources]
    seen = repr(read[1:]) + json.dumps(read[0], default=str)
    # The question and the name of the user may appear in the answers, because they come with the call.
    seen = seen.replace(user.id, "")
    return [f"{seen.count(stem)} copies can still be read"] if stem in seen else []


async def forget_each(folder: Path, seed: int) -> Outcome:
    """Forget record by record, session by session; nothing can be read, and upkeep and closing clear the files."""
    words = canaries(random.Random(seed))
    outcome = Outcome("forget")
    clock = ManualClock()
    with hearing() as heard:
        await write_all(folder, clock, words)
        async with _opened(folder, clock) as memory:
            stage = _stage(memory, words)
            outcome.before = counted(bytes_of(folder), words)
            await _forget_all(stage)
            await memory.work()
            outcome.problems += await readable(stage, words)
            clock.advance(days=2)
            await memory.maintain()
            await memory.work()
        outcome.after = counted(bytes_of(folder), words)
    outcome.logged = counted([heard.text.encode()], words)
    for way in (WAITING, USER_ID):  # nothing waits here, and forgetting keeps the user itself
        del outcome.before[way], outcome.after[way]
    return outcome


async def _forget_all(stage: Stage) -> None:
    """Forget each record by its id, then what belongs to sessions as a whole."""
    user = stage.user
    exported = (await user.export())[1:]
    for line in exported:
        if line["layer"] in PUBLIC_LAYERS:
            with suppress(NotFound):  # it went with the one that it was merged into
                await user.forget(line["id"])
    sessions = {line["scope"]["session"] for line in exported} - {""}
    for session in sessions:
        await user.session(session).delete()
    await user.working.clear()


async def add_twins(folder: Path, count: int = TWINS) -> list[str]:
    """Add the same memory many times at once, through two openings of one file. Returns what is wrong."""
    opened = (Memory.open(folder / "memory.db", embedder=HashingEmbedder(), worker=False) for _ in range(2))
    async with next(opened) as one, next(opened) as other:
        adding = ((one, other)[n % 2].user("ann").add_memory("The same, word by word.") for n in range(count))
        added = await asyncio.gather(*adding)
        await one.work()
        listed, _ = await one.user("ann").list_memories(limit=1000)
    problems = [] if len({record.id for record in added}) == 1 else ["the calls were answered with several memories"]
    if [record.data.get("seen") for record in listed] != [count]:
        problems.append(f"{len(listed)} memories instead of one that was told {count} times")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m recollect.testing.erasing", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each drill is run, each time with other canaries"
    )
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failed = False
    for place in range(chosen.rounds):
        for drill in (erase_user, forget_each):
            with tempfile.TemporaryDirectory() as folder:
                outcome = asyncio.run(drill(Path(folder), chosen.seed + place))
            if place == 0 or outcome.findings:
                print(outcome, end="\n\n", flush=True)
            failed |= bool(outcome.findings)
        with tempfile.TemporaryDirectory() as folder:
            problems = asyncio.run(add_twins(Path(folder)))
        print(f"round {place + 1}: {TWINS} identical adds at once: {'; '.join(problems) or 'one memory'}", flush=True)
        failed |= bool(problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
