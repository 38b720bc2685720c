"""The whole front door against a plain dictionary: random walks over everything a program may do.

The dictionary is what a careful person would write down on paper: messages in order, memories by
text, states, titles, and when each of them dies. After every step the memory must say the same.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from recollect import Memory
from recollect.errors import Conflict, NotFound, ValidationError
from recollect.records import DAY_MS
from recollect.testing.fakes import HashingEmbedder, ManualClock

USERS = ("ann", "bob")
SESSIONS = ("s", "s1", "t")
MESSAGE_LIFE_MS, STATE_LIFE_MS = 30 * DAY_MS, DAY_MS


@dataclass
class Told:
    """A message on paper."""

    id: str
    role: str
    content: str
    dies_at: int


@dataclass
class Paper:
    """Everything known about one user."""

    messages: dict[str, list[Told]] = field(default_factory=lambda: {name: [] for name in SESSIONS})
    memories: dict[str, list[str]] = field(default_factory=dict)
    states: dict[str, tuple[dict[str, Any], int]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[str, str, int]] = field(default_factory=dict)


class FrontDoor(RuleBasedStateMachine):
    """Every rule does one thing to the memory and writes it down on paper."""

    on_disk = False
    message_ids = Bundle("message_ids")
    memory_ids = Bundle("memory_ids")
    user_names = st.sampled_from(USERS)
    session_names = st.sampled_from(SESSIONS)
    small = st.integers(0, 5)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.paper = {name: Paper() for name in USERS}
        self.words = 0
        self.open()

    def open(self) -> None:
        url = f"sqlite:///{Path(self.folder.name)}/m.db" if self.on_disk else "memory://"
        self.memory = Memory.open(
            url, clock=self.clock, embedder=HashingEmbedder(), worker=False, window_tokens=120, summary_tokens=60
        )
        self.do(self.memory.start())

    def do(self, call):
        return self.loop.run_until_complete(call)

    def user(self, name):
        return self.memory.user(name)

    def word(self) -> str:
        """A word that nobody used before, so that search must find exactly its text."""
        self.words += 1
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(self.words))
        return f"qz{letters}zq"

    def living(self, name, session) -> list[Told]:
        return [told for told in self.paper[name].messages[session] if told.dies_at > self.clock()]

    def place_of(self, id) -> tuple[str, str, Told] | None:
        for name in USERS:
            for session in SESSIONS:
                for told in self.living(name, session):
                    if told.id == id:
                        return name, session, told
        return None

    def write_down(self, name, session, messages) -> None:
        dies_at = self.clock() + MESSAGE_LIFE_MS
        self.paper[name].messages[session] += [
            Told(message.id, message.role, message.content, dies_at) for message in messages
        ]

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    @rule(target=message_ids, name=user_names, session=session_names)
    def add_a_message(self, name, session):
        message = self.do(self.user(name).session(session).add_message("user", f"hello {self.word()}"))
        self.write_down(name, session, [message])
        return message.id

    @rule(name=user_names, session=session_names)
    def add_an_interaction(self, name, session):
        pair = self.do(self.user(name).session(session).add_interaction(f"ask {self.word()}", f"say {self.word()}"))
        self.write_down(name, session, pair)

    @rule(name=user_names, session=session_names, count=st.integers(1, 8), bad=st.booleans())
    def add_a_batch(self, name, session, count, bad):
        items = [{"role": "user", "content": f"batch {self.word()}"} for _ in range(count)]
        chat = self.user(name).session(session)
        if bad:
            with pytest.raises(ValidationError):
                self.do(chat.add_messages([*items, {"role": "user", "content": ""}]))
        else:
            self.write_down(name, session, self.do(chat.add_messages(items)))

    @rule(id=message_ids, same=st.booleans())
    def send_an_id_again(self, id, same):
        place = self.place_of(id)
        if place is None:
            return
        name, session, told = place
        chat = self.user(name).session(session)
        if same:
            assert self.do(chat.add_message(told.role, told.content, id=id)).id == id
        else:
            with pytest.raises(Conflict):
                self.do(chat.add_message(told.role, told.content + " changed", id=id))

    @rule(name=user_names, session=session_names, number=small)
    def use_a_key(self, name, session, number):
        key = f"k{number}"
        chat = self.user(name).session(session)
        known = self.paper[name].keys.get(key)
        if known is not None and known[2] + DAY_MS > self.clock():
            place = self.place_of(known[1])
            with pytest.raises(Conflict):
                self.do(chat.add_message("user", f"other {self.word()}", idempotency_key=key))
            if place is not None and place[0] == name:
                again = self.do(
                    self.user(name).session(place[1]).add_message("user", place[2].content, idempotency_key=key)
                )
                assert again.id == known[1]
            return
        try:
            message = self.do(chat.add_message("user", f"keyed {self.word()}", idempotency_key=key))
        except Conflict:
            # The id that belongs to this key and session is still taken by an older message.
            assert known is not None
            return
        self.write_down(name, session, [message])
        self.paper[name].keys[key] = (session, message.id, self.clock())

    @rule(name=user_names, session=session_names)
    def delete_a_session(self, name, session):
        receipt = self.do(self.user(name).session(session).delete())
        assert receipt.forgotten.get("conversation", 0) == len(self.living(name, session))
        paper = self.paper[name]
        paper.messages[session] = []
        paper.titles.pop(session, None)
        paper.states.pop(session, None)

    @rule(name=user_names, session=session_names, number=small)
    def rename_a_session(self, name, session, number):
        self.do(self.user(name).session(session).rename(f"title {number}"))
        self.paper[name].titles[session] = f"title {number}"

    @rule(name=user_names, session=session_names)
    def compress_a_session(self, name, session):
        self.do(self.user(name).session(session).compress())

    @rule(name=user_names, source=session_names, into=session_names, place=small)
    def branch_a_session(self, name, source, into, place):
        told = self.living(name, source)
        if place >= len(told):
            return
        chat = self.user(name).session(source)
        if source == into or self.living(name, into):
            with pytest.raises(Conflict):
                self.do(chat.branch(told[place].id, into))
            return
        branch = self.do(chat.branch(told[place].id, into))
        copies, _ = self.do(branch.messages(limit=1000))
        assert [copy.content for copy in copies] == [each.content for each in told[: place + 1]]
        self.write_down(name, into, copies)

    # ── memories and states ──────────────────────────────────────────────────────────────────────

    @rule(target=memory_ids, name=user_names)
    def add_a_memory(self, name):
        content = f"knowledge {self.word()}"
        record = self.do(self.user(name).add_memory(content))
        self.paper[name].memories[record.id] = [content]
        return record.id

    @rule(name=user_names, number=small)
    def add_the_same_memory_again(self, name, number):
        known = [versions[-1] for versions in self.paper[name].memories.values() if len(versions) == 1]
        if known:
            content = known[number % len(known)]
            again = self.do(self.user(name).add_memory(content.upper() + "."))
            assert again.content == content

    @rule(id=memory_ids, name=user_names)
    def update_a_memory(self, id, name):
        content = f"knowledge {self.word()}"
        call = self.user(name).update_memory(id, content=content)
        if id in self.paper[name].memories:
            self.do(call)
            self.paper[name].memories[id].append(content)
        else:
            with pytest.raises(NotFound):
                self.do(call)

    @rule(id=memory_ids | message_ids, name=user_names)
    def forget(self, id, name):
        place = self.place_of(id)
        call = self.user(name).forget(id)
        if id in self.paper[name].memories:
            self.do(call)
            del self.paper[name].memories[id]
        elif place is not None and place[0] == name:
            self.do(call)
            self.paper[name].messages[place[1]].remove(place[2])
        else:
            with pytest.raises(NotFound):
                self.do(call)

    @rule(name=user_names, session=session_names, number=small, way=st.sampled_from(["set", "patch", "push", "clear"]))
    def change_the_state(self, name, session, number, way):
        working = self.user(name).session(session).working
        held = self.state(name, session)
        if way == "clear":
            self.do(working.clear())
            self.paper[name].states.pop(session, None)
            return
        if way == "set":
            held = {"n": number}
            self.do(working.set(held))
        elif way == "patch":
            held = held | {f"key{number}": number}
            self.do(working.patch({f"key{number}": number}))
        else:
            held = held | {"list": [*held.get("list", []), number][-3:]}
            self.do(working.push("list", number, keep=3))
        self.paper[name].states[session] = (held, self.clock() + STATE_LIFE_MS)

    def state(self, name, session) -> dict[str, Any]:
        held, dies_at = self.paper[name].states.get(session, ({}, 0))
        return held if dies_at > self.clock() else {}

    # ── the world ────────────────────────────────────────────────────────────────────────────────

    @rule(hours=st.sampled_from([0.01, 1, 13, 24, 24 * 8, 24 * 29]))
    def time_goes_by(self, hours):
        self.clock.advance(hours=hours)

    @rule()
    def work(self):
        self.do(self.memory.work())

    @rule()
    def maintain(self):
        self.do(self.memory.maintain())

    @precondition(lambda self: self.on_disk)
    @rule()
    def reopen(self):
        self.do(self.memory.close())
        self.open()

    @rule(name=user_names)
    def erase(self, name):
        self.do(self.user(name).erase())
        keys = self.paper[name].keys
        self.paper[name] = Paper(keys=keys)

    # ── the memory says what the paper says ──────────────────────────────────────────────────────

    @rule(name=user_names, session=session_names, count=st.integers(1, 60))
    def a_window_shows_the_newest(self, name, session, count):
        chat = self.user(name).session(session)
        expected = [(told.id, told.content) for told in self.living(name, session)]
        window = self.do(chat.window(messages=count))
        assert [(message.id, message.content) for message in window] == expected[-count:]
        summed = self.do(chat.window("sliding_window_summary", messages=count))
        raw = [message for message in summed if message.role != "system"]
        assert [(message.id, message.content) for message in raw] == (expected[-len(raw) :] if raw else [])
        assert not expected or raw

    @rule(name=user_names, number=small)
    def search_finds_a_word_and_nobody_elses(self, name, number):
        for other in USERS:
            texts = [told.content for session in SESSIONS for told in self.living(other, session)]
            texts += [versions[-1] for versions in self.paper[other].memories.values()]
            if not texts:
                continue
            content = texts[(number * 7919) % len(texts)]
            hits = self.do(self.user(name).search_memory(content.split()[-1]))
            if other == name:
                assert hits[0].content == content
            assert all(hit.record.scope.user == name for hit in hits)
            assert other == name or content not in [hit.content for hit in hits]

    @rule(name=user_names, session=session_names, budget=st.integers(1, 400))
    def a_context_fits(self, name, session, budget):
        context = self.do(self.user(name).session(session).get_context("what about hello?", max_tokens=budget))
        assert context.tokens <= budget
        known = {told.id for each in SESSIONS for told in self.living(name, each)} | self.paper[name].memories.keys()
        for source in context.sources:
            assert source.id in known or source.layer in ("summary", "working", "episodic")

    @invariant()
    def everything_is_as_written_down(self):
        for name in USERS:
            paper = self.paper[name]
            user = self.user(name)
            counts = {session: len(told) for session in SESSIONS if (told := self.living(name, session))}
            infos = {info.id: info for info in self.do(user.sessions())}
            assert {id: info.messages for id, info in infos.items()} == counts
            for id, info in infos.items():
                assert info.title == paper.titles.get(id, self.living(name, id)[0].content[:60])
            records, after = self.do(user.list_memories(limit=1000))
            assert after is None
            assert {record.id: record.content for record in records} == {
                id: versions[-1] for id, versions in paper.memories.items()
            }
            for session in SESSIONS:
                assert self.do(user.session(session).working.get()) == self.state(name, session)

    @rule(id=memory_ids, name=user_names)
    def a_history_is_whole(self, id, name):
        if id in self.paper[name].memories:
            past = self.do(self.user(name).history(id))
            assert [record.content for record in past] == self.paper[name].memories[id]

    def teardown(self) -> None:
        for name in USERS:
            assert self.do(self.user(name).failures()) == []
        assert self.do(self.memory.check()) == []
        self.do(self.memory.close())
        self.loop.close()
        self.folder.cleanup()


class FrontDoorOnDisk(FrontDoor):
    on_disk = True


@pytest.mark.parametrize(("machine", "examples"), [(FrontDoor, 60), (FrontDoorOnDisk, 30)], ids=["memory", "sqlite"])
def test_the_front_door_agrees_with_the_paper(machine, examples):
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=40))
