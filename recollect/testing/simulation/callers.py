"""The callers: random calls of the front door, repeated until they are answered, and what each means on paper."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from recollect.errors import Conflict, NotFound, Unavailable
from recollect.memory import Memory
from recollect.records import Partition
from recollect.session import Session
from recollect.testing.simulation.paper import LATE, NEVER, SHOWN, Paper, Removal, Text, words_in
from recollect.testing.simulation.world import Killed, Process, World
from recollect.testing.verbs import retry_failures
from recollect.user import User

T = TypeVar("T")
Call = Callable[[Memory], Coroutine[Any, Any, T]]

OWNERS = (Partition("acme", "ann"), Partition("acme", "bob"), Partition("other", "ann"))
FOUND = ("conversation", "long_term", "learning")
"""Layers whose texts a search finds as they were stored."""
SESSIONS = ("s", "s1", "t")
TAGS = ("red", "blue")
KEYS = ("colour", "motto")
TRIES, TRIES_OF_REMOVALS = 6, 40
GIVES_UP = 0.04
"""The share of calls whose caller does not wait for the answer."""
THINGS = [
    "anchor", "basket", "candle", "dagger", "engine", "feather", "garden", "hammer", "island",
    "jacket", "kettle", "ladder", "mirror", "needle", "orchid", "pencil", "quarry", "ribbon",
    "saddle", "teapot", "umbrella", "violin", "window", "yogurt", "zipper", "bridge", "carpet",
    "desert", "fossil", "glacier", "harbour",
]  # fmt: skip


class GaveUp(Exception):
    """The caller has tried often enough: whether it was done remains unknown."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing that a caller is going to do. Its details come from its own number, whatever else is done."""

    number: int
    caller: int
    kind: str
    owner: Partition
    session: str
    pause_s: float

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} {self.owner.org}/{self.owner.user} {self.session}"


class Seen(NamedTuple):
    """An answer, its words, and when it was asked for and given."""

    answer: Any
    words: set[str]
    place: str
    asked: float
    answered: float


class Caller:
    """Does errands, one after the other."""

    def __init__(self, world: World, paper: Paper, processes: Sequence[Process], seed: int) -> None:
        self._world, self._paper, self._processes = world, paper, processes
        self._seed = seed
        self.disturbed: set[tuple[Partition, str]] = set()
        """Sessions of which something that was learned was undone, so that it need not be known."""

    def _now(self) -> float:
        return self._world.loop.time()

    async def do(self, errand: Errand) -> None:
        """Do one errand. An error that no caller should see is a fault."""
        self._world.tell(f"caller {errand.caller}", f"{errand}")
        chance = random.Random(f"{self._seed} {errand.number}")
        try:
            await KINDS[errand.kind][1](self, errand, chance)
            outcome = "done"
        except GaveUp:
            outcome = "gave up"
        except Exception as error:
            outcome = f"raised {type(error).__name__}"
            self._paper.wrong.append(f"{errand} raised {error!r}")
        self._world.tell(f"caller {errand.caller}", f"#{errand.number} {outcome}")

    async def _made(self, call: Call[T], chance: random.Random, tries: int = TRIES) -> T:
        """The answer to a call, which is made again in some process until there is one."""
        for _ in range(tries):
            patience_s = chance.random() * 0.05 if chance.random() < GIVES_UP else None
            try:
                return await chance.choice(self._processes).run(call, patience_s)
            except (Unavailable, Killed):
                await asyncio.sleep(chance.random() * 4)
        raise GaveUp

    # ── what is stored ───────────────────────────────────────────────────────────────────────────

    async def _stored(self, texts: Sequence[Text], call: Call[Any], chance: random.Random) -> Any:
        """Store texts, and write down that they are stored, or that it is over."""
        for text in texts:
            self._paper.write(text)
            self._world.tell("  text", f"{text.word} of {text.owner.user} in {text.session or text.layer}")
        try:
            answer = await self._made(call, chance)
        except Conflict as conflict:
            if texts[0].layer == "customization":  # an earlier try has stored it
                self._settle(texts)
                texts[0].acked = self._now()
                return None
            if not any(text.removals for text in texts):
                self._paper.wrong.append(f"{texts[0].word} was refused with {conflict!r}, but nobody had removed it")
            self._settle(texts)
            return None
        except NotFound:
            self._settle(texts)
            raise
        except GaveUp:
            self._settle(texts, LATE)
            raise
        self._settle(texts)
        missing = [text.word for text in texts if text.word not in words_in(answer)]
        if missing and texts[0].layer != "fact":  # of facts the answer is the current one, and clocks differ
            self._paper.wrong.append(f"the answer to storing {missing} does not hold it: {answer!r}")
        for text in texts:
            text.acked = text.settled
        return answer

    def _settle(self, texts: Iterable[Text], later_s: float = 0.0) -> None:
        for text in texts:
            text.settled = self._now() + later_s

    def _text(self, errand: Errand, layer: str, *, friend: bool = False, **more: Any) -> Text:
        word = self._paper.friend(errand.caller) if friend else self._paper.word()
        owner = more.pop("owner", errand.owner)
        return Text(word, owner, layer, errand.caller, self._now(), **more)

    async def say(self, errand: Errand, chance: random.Random) -> None:
        """One message, an exchange or a batch, each with a key or with ids, so that a repeat stores nothing twice."""
        roles = chance.choice((["user"], ["user"], ["user", "assistant"], ["user", "user", "assistant"]))
        texts = [self._text(errand, "conversation", friend=True, session=errand.session) for _ in roles]
        tag = chance.choice(TAGS)
        by_key = chance.random() < 0.6
        messages: list[dict[str, Any]] = []
        for role, text in zip(roles, texts, strict=True):
            content = f"My friend {text.word} came too."
            content = content if role == "user" else f"So {text.word} came with the {chance.choice(THINGS)}."
            text.of = f"{role} {tag}"
            text.id = "" if by_key else f"m{errand.number}-{len(messages)}"
            named = {} if by_key else {"id": text.id}
            messages.append({"role": role, "content": content, "metadata": {"tag": tag}, **named})
        key = f"say {errand.number}" if by_key else None
        if len(texts) == 1:
            answer = await self._stored(
                texts, lambda memory: _chat(memory, errand).add_message(**messages[0], idempotency_key=key), chance
            )
            answer = answer and [answer]
        else:
            answer = await self._stored(
                texts, lambda memory: _chat(memory, errand).add_messages(messages, idempotency_key=key), chance
            )
        for text, message in zip(texts, answer or (), strict=bool(answer)):
            text.id = message.id

    async def note(self, errand: Errand, chance: random.Random) -> None:
        """A memory of the user, or of the org."""
        owner = Partition(errand.owner.org, "") if chance.random() < 0.2 else errand.owner
        text = self._text(errand, "long_term", owner=owner)
        content = f"{text.word} {' '.join(chance.sample(THINGS, 6))}"
        key = f"note {errand.number}"
        record = await self._stored(
            [text], lambda memory: _owner(memory, owner).add_memory(content, idempotency_key=key), chance
        )
        if record is not None:
            text.id = text.of = record.id

    async def change(self, errand: Errand, chance: random.Random) -> None:
        """Another text for a memory: the one before stays in its history."""
        known = [each for each in self._paper.of(errand.owner, "long_term") if each.id and each.id == each.of]
        if not known:
            return
        memory_id = chance.choice(known).id
        earlier = [each for each in self._paper.of(errand.owner, "long_term") if each.of == memory_id]
        text = self._text(errand, "long_term", of=memory_id)
        places = frozenset({"search", "context", "list"})
        superseded = self._paper.remove(
            Removal(f"#{errand.number} changed it", lambda each: each is not text and each.of == memory_id,
                    self._now(), places=places)
        )  # fmt: skip
        content = f"{text.word} {' '.join(chance.sample(THINGS, 6))}"
        try:
            await self._stored(
                [text], lambda memory: _user(memory, errand).update_memory(memory_id, content=content), chance
            )
            superseded.ended = self._now()
        except NotFound:
            if not any(each.places is None for old in earlier for each in old.removals):
                self._paper.wrong.append(f"{memory_id} was not found, but nobody had removed it")

    async def state_fact(self, errand: Errand, chance: random.Random) -> None:
        """A fact under a key that has one value at a time; the others stay in its history."""
        key = chance.choice(KEYS)
        text = self._text(errand, "fact", of=key)
        fact = await self._stored([text], lambda memory: _user(memory, errand).add_fact(key, text.word), chance)
        if fact is not None:
            text.id = fact.id

    async def teach(self, errand: Errand, chance: random.Random) -> None:
        text = self._text(errand, "learning")
        content = f"{text.word}: {' '.join(chance.sample(THINGS, 5))}"
        learning = await self._stored([text], lambda memory: _user(memory, errand).add_learning(content), chance)
        if learning is not None:
            text.id = learning.id

    async def instruct(self, errand: Errand, chance: random.Random) -> None:
        text = self._text(errand, "customization", id=f"c{errand.number}")
        await self._stored(
            [text], lambda memory: _user(memory, errand).customize(f"Say {text.word}.", id=text.id), chance
        )

    async def keep_state(self, errand: Errand, chance: random.Random) -> None:
        """A part of the state of a task: whoever sets the whole state removes the others."""
        text = self._text(errand, "working", session=errand.session)
        state = {text.word: errand.number}
        if chance.random() < 0.7:
            await self._stored([text], lambda memory: _patched(memory, errand, state), chance)
            return
        removal = self._paper.remove(
            Removal(
                f"#{errand.number} set the state",
                lambda each: (
                    each is not text and each.layer == "working" and _is_in(each, errand.owner, errand.session)
                ),
                self._now(),
            )
        )
        await self._stored([text], lambda memory: _set(memory, errand, state), chance)
        removal.ended = self._now()

    async def branch(self, errand: Errand, chance: random.Random) -> None:
        """A session that begins with some of another's messages: each may be there twice from now on."""
        said = [each for each in self._paper.of(errand.owner, "conversation", session=errand.session) if each.id]
        if not said:
            return
        into, message_id = f"b{errand.number}", chance.choice(said).id
        copies = [
            self._paper.write(Text(text.word, text.owner, "conversation", errand.caller, self._now(), into, of=text.of))
            for text in list(self._paper.of(errand.owner, "conversation", session=errand.session))
        ]
        try:
            await self._made(lambda memory: _chat(memory, errand).branch(message_id, into), chance)
        except (NotFound, Conflict):
            pass  # the message is gone, or an earlier try has made the branch
        finally:
            self._settle(copies, LATE)

    # ── what is removed ──────────────────────────────────────────────────────────────────────────

    async def _removed(
        self,
        what: str,
        covers: Callable[[Text], bool],
        call: Call[Any],
        chance: random.Random,
        *,
        surely: bool = True,
        **more: Any,
    ) -> None:
        removal = self._paper.remove(Removal(what, covers, self._now(), **more))

        def trying(memory: Memory) -> Coroutine[Any, Any, Any]:
            removal.tries += 1
            return call(memory)

        try:
            await self._made(trying, chance, TRIES_OF_REMOVALS)
        except NotFound:
            pass  # an earlier try, or somebody else, was faster
        removal.ended = self._now() if surely else NEVER

    async def forget(self, errand: Errand, chance: random.Random) -> None:
        """One text, by its id: a memory with its history, a fact with all its values, a message, a learning."""
        known = [
            each
            for each in self._paper.of(errand.owner, "conversation", "long_term", "fact", "learning")
            if each.id and each.acked < self._now()
        ]
        if not known:
            return
        meant = chance.choice(known[-3:] if chance.random() < 0.5 else known)  # what is new is still being read
        keyed = meant.layer in ("long_term", "fact")

        def covers(text: Text) -> bool:
            return text is meant or (
                keyed and (text.owner, text.layer, text.of) == (meant.owner, meant.layer, meant.of)
            )

        what = f"#{errand.number} forgot {meant.word}"
        self._world.tell("  text", what)
        await self._removed(what, covers, lambda memory: _user(memory, errand).forget(meant.id), chance)

    async def forget_where(self, errand: Errand, chance: random.Random) -> None:
        """Messages with a tag, or what the user said in a session."""
        if chance.random() < 0.5:
            tag = chance.choice(TAGS)
            where: dict[str, Any] = {"metadata.tag": tag}
            covers = _tagged(errand.owner, tag)
        else:
            where = {"session": errand.session, "role": "user"}
            covers = _by_user(errand.owner, errand.session)
        what = f"#{errand.number} forgot {where}"
        await self._removed(what, covers, lambda memory: _user(memory, errand).forget(where=where), chance)

    async def delete_session(self, errand: Errand, chance: random.Random) -> None:
        await self._removed(
            f"#{errand.number} deleted {errand.session}", lambda each: _is_in(each, errand.owner, errand.session),
            lambda memory: _chat(memory, errand).delete(), chance,
        )  # fmt: skip

    async def erase(self, errand: Errand, chance: random.Random) -> None:
        await self._removed(
            f"#{errand.number} erased {errand.owner.user}", lambda each: _is_in(each, errand.owner),
            lambda memory: _user(memory, errand).erase(), chance,
        )  # fmt: skip

    async def erase_org(self, errand: Errand, chance: random.Random) -> None:
        org = errand.owner.org
        await self._removed(
            f"#{errand.number} erased {org}", lambda each: each.owner.org == org,
            lambda memory: memory.org(org).erase(), chance,
        )  # fmt: skip

    async def set_aside(self, errand: Errand, chance: random.Random) -> None:
        """A session is set aside, and perhaps released later.

        What it taught is ended at that time: a process whose clock is behind still sees it for a while. A release that
        was interrupted is completed by a job, perhaps after this; by such a clock it may have begun after this as well.
        """
        surely = not self._world.skewed
        self.disturbed.add((errand.owner, errand.session))
        await self._removed(
            f"#{errand.number} set {errand.session} aside",
            lambda each: each.layer == "conversation" and _is_in(each, errand.owner, errand.session),
            lambda memory: _user(memory, errand).quarantine(session=errand.session), chance,
            places=SHOWN, lasting=True, surely=surely,
        )  # fmt: skip

    async def release(self, errand: Errand, chance: random.Random) -> None:
        for text in self._paper.of(errand.owner, "conversation", session=errand.session):
            for each in text.removals:
                each.lifted = min(each.lifted, self._now()) if each.lasting else each.lifted
        try:
            await self._made(lambda memory: _user(memory, errand).release(session=errand.session), chance)
        except NotFound:
            pass

    async def undo(self, errand: Errand, chance: random.Random) -> None:
        self.disturbed.add((errand.owner, errand.session))
        try:
            undone = await self._made(lambda memory: _user(memory, errand).undo(session=errand.session), chance)
            if chance.random() < 0.5:
                await self._made(lambda memory: _user(memory, errand).redo(undone.id), chance)
        except NotFound:
            pass  # there is no such session, or nothing of it is left

    # ── what disturbs ────────────────────────────────────────────────────────────────────────────

    async def tend(self, errand: Errand, chance: random.Random) -> None:
        """What may be done at any time, and must change nothing of what holds."""
        calls: Sequence[Call[Any]] = (
            lambda memory: _user(memory, errand).reprocess(by="rules", apply=True),
            lambda memory: memory.reembed(),
            lambda memory: memory.maintain(),
            lambda memory: memory.work(),
            lambda memory: _chat(memory, errand).rename("Talk"),
            retry_failures,
        )
        try:
            await self._made(chance.choice(calls), chance)
        except NotFound:
            pass

    async def sum_up(self, errand: Errand, chance: random.Random) -> None:
        """A summary or an episode is made now, of what others may be forgetting."""
        calls: Sequence[Call[Any]] = (
            lambda memory: _chat(memory, errand).compress(),
            lambda memory: _chat(memory, errand).close(),
        )
        try:
            await self._made(chance.choice(calls), chance)
        except NotFound:
            pass

    # ── what is read ─────────────────────────────────────────────────────────────────────────────

    async def _read(self, errand: Errand, place: str, call: Call[Any], chance: random.Random) -> Seen:
        """The answer to a question, checked for what must not be in it."""
        asked = 0.0

        async def asking(memory: Memory) -> Any:
            nonlocal asked
            asked = self._now()
            return await call(memory)

        answer = await self._made(asking, chance)
        now = self._now()
        return Seen(answer, self._paper.look(answer, errand.owner, place, asked, now), place, asked, now)

    def _expect(self, seen: Seen, texts: Iterable[Text]) -> None:
        self._paper.expect(seen.words, texts, seen.place, seen.asked, seen.answered)

    async def search(self, errand: Errand, chance: random.Random) -> None:
        """A search for a word of anybody, living or gone: the user's own living ones are found."""
        if not self._paper.texts:
            return
        everybodys = list(self._paper.texts.values())
        own = [*self._paper.of(errand.owner), *self._paper.of(Partition(errand.owner.org, ""))]
        meant = chance.choice(own if own and chance.random() < 0.8 else everybodys)
        seen = await self._read(errand, "search", lambda memory: _searched(memory, errand.owner, meant.word), chance)
        if meant in own and meant.layer in FOUND:
            self._expect(seen, [meant])

    async def context(self, errand: Errand, chance: random.Random) -> None:
        own = [each.word for each in self._paper.of(errand.owner)] or ["nobody"]
        question = f"What about {chance.choice(own)}?"
        await self._read(errand, "context", lambda memory: _context(memory, errand, question), chance)

    async def window(self, errand: Errand, chance: random.Random) -> None:
        strategy = chance.choice(("last_messages", "last_turns", "sliding_window_summary", "importance"))
        await self._read(errand, "window", lambda memory: _chat(memory, errand).window(strategy), chance)

    async def read(self, errand: Errand, chance: random.Random) -> None:
        """A session's messages in order, the user's memories, a state, or anything else that is listed."""
        place = chance.choice(("messages", "list", "state", *LISTED))
        if place in LISTED:
            await self._read(errand, place, lambda memory: LISTED[place](_user(memory, errand)), chance)
        elif place == "list":
            seen = await self._read(errand, place, lambda memory: _user(memory, errand).list_memories(), chance)
            self._expect(seen, self._paper.of(errand.owner, "long_term"))
        elif place == "state":
            seen = await self._read(errand, place, lambda memory: _chat(memory, errand).working.get(), chance)
            self._expect(seen, self._paper.of(errand.owner, "working", session=errand.session))
        else:
            seen = await self._read(errand, place, lambda memory: _chat(memory, errand).messages(limit=1_000), chance)
            self._expect(seen, self._paper.of(errand.owner, "conversation", session=errand.session))
            words = [word for each in seen.answer[0] for word in words_in(each)]
            self._paper.in_order(words, f"session {errand.session}")


def _is_in(text: Text, owner: Partition, session: str | None = None) -> bool:
    return text.owner == owner and session in (None, text.session)


def _tagged(owner: Partition, tag: str) -> Callable[[Text], bool]:
    return lambda text: _is_in(text, owner) and text.of.endswith(f" {tag}")


def _by_user(owner: Partition, session: str) -> Callable[[Text], bool]:
    return lambda text: _is_in(text, owner, session) and text.of.startswith("user ")


def _user(memory: Memory, errand: Errand) -> User:
    return memory.user(errand.owner.user, org=errand.owner.org)


def _chat(memory: Memory, errand: Errand) -> Session:
    return _user(memory, errand).session(errand.session)


def _owner(memory: Memory, owner: Partition) -> Any:
    return memory.user(owner.user, org=owner.org) if owner.user else memory.org(owner.org)


async def _patched(memory: Memory, errand: Errand, state: dict[str, Any]) -> Any:
    return await _chat(memory, errand).working.patch(state)


async def _set(memory: Memory, errand: Errand, state: dict[str, Any]) -> Any:
    await _chat(memory, errand).working.set(state)
    return state


async def _searched(memory: Memory, owner: Partition, word: str) -> Any:
    found = await memory.user(owner.user, org=owner.org).search_memory(word, limit=50)
    return [hit.record for hit in found]


async def _context(memory: Memory, errand: Errand, question: str) -> Any:
    context = await _chat(memory, errand).get_context(question)
    return str(context.messages).replace(question, "")


async def _histories(user: User) -> Any:
    return [await user.facts.history(key) for key in KEYS]


LISTED: dict[str, Callable[[User], Coroutine[Any, Any, Any]]] = {
    "profile": lambda user: user.profile(),
    "facts": _histories,
    "graph": lambda user: user.graph.whole(),
    "episodes": lambda user: user.episodes.list(),
    "learnings": lambda user: user.learnings.list(include_retired=True),
    "customizations": lambda user: user.customizations.list(),
    "sessions": lambda user: user.sessions(),
    "export": lambda user: user.export(),
}
Kind = Callable[[Caller, Errand, random.Random], Awaitable[None]]
KINDS: dict[str, tuple[int, Kind]] = {
    "say": (30, Caller.say), "note": (10, Caller.note), "change": (5, Caller.change),
    "state_fact": (5, Caller.state_fact), "teach": (3, Caller.teach), "instruct": (2, Caller.instruct),
    "keep_state": (5, Caller.keep_state), "branch": (2, Caller.branch), "forget": (9, Caller.forget),
    "forget_where": (3, Caller.forget_where), "delete_session": (4, Caller.delete_session), "erase": (2, Caller.erase),
    "erase_org": (1, Caller.erase_org), "set_aside": (2, Caller.set_aside), "release": (1, Caller.release),
    "undo": (2, Caller.undo), "tend": (6, Caller.tend), "sum_up": (8, Caller.sum_up), "search": (16, Caller.search),
    "context": (8, Caller.context), "window": (6, Caller.window), "read": (14, Caller.read),
}  # fmt: skip
"""What callers do, and how often among each other."""
