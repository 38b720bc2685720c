"""Every verb of the front door in one table, and a stage on which each of them has something to do.

For drills that interrupt verbs (`interruptions.py`). The stage is a user with something of everything; `stages.py` puts
it on any store. `state_of` and `views_of` say what there is, in the store and as callers see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recollect.errors import NotFound, RecollectError
from recollect.memory import Memory
from recollect.org import Org
from recollect.records import MINUTE_MS, Changes, Partition, Record, Scope, payload_of
from recollect.session import Session
from recollect.stores.contract import Store, named_partitions
from recollect.testing.fakes import NOON_MS, HashingEmbedder, ManualClock, ScriptedModel, WordReranker, learned
from recollect.testing.faults import SteppedStore
from recollect.user import User

NOW_MS = NOON_MS + 10 * MINUTE_MS
"""When the calls are made, a while after the stage was set."""
LEFT_OUT = ("seal", "fence", "spending")
"""Layers that only serve work in progress, or count what a model cost: it is asked again, and costs again."""
SOUGHT = "Which tea does Ann drink in the garden?"


@dataclass(frozen=True, slots=True)
class Cast:
    """Who and what is on the stage, for a verb to act on."""

    memory: Memory
    ann: User
    chat: Session
    org: Org
    ids: Mapping[str, str]


Call = Callable[[Cast], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Verb:
    """A call, and what may be expected if it is made again.

    `once`: a repeat changes nothing more. `in_steps`: it takes several commits, and a repeat completes it. `later`:
    so do workers, but what failed waits for its time. `reads`: nothing changes at all.
    """

    call: Call
    once: bool = True
    in_steps: bool = False
    later: bool = False
    reads: bool = False


def _reads(call: Call) -> Verb:
    return Verb(call, reads=True)


async def load(type: str, id: str) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"name": "Late order"}


async def _pages(given: Cast) -> list[Any]:
    found, after = await given.ann.export_page(limit=5)
    while after is not None:
        more, after = await given.ann.export_page(limit=5, after=after)
        found += more
    return found


IMPORTED: list[dict[str, Any]] = [
    {"id": f"old{n}", "layer": "long_term", "content": f"In year {n} Ann moved house."} for n in range(5)
]
SPOKEN: list[dict[str, Any]] = [
    {"role": "user", "content": f"In house number {n} lives a cat.", "id": f"cat{n}"} for n in range(4)
]

VERBS: dict[str, Verb] = {
    # Session
    "Session.add_message": Verb(lambda on: on.chat.add_message("user", "I moved to Rome.", id="rome")),
    "Session.add_messages": Verb(lambda on: on.chat.add_messages(SPOKEN, idempotency_key="cats")),
    "Session.add_interaction": Verb(lambda on: on.chat.add_interaction("Hi.", "Hello!", idempotency_key="greeting")),
    "Session.window": _reads(lambda on: on.chat.window("sliding_window_summary")),
    "Session.messages": _reads(lambda on: on.chat.messages()),
    "Session.get_context": _reads(lambda on: on.chat.get_context(SOUGHT, quality="best")),
    "Session.search_memory": _reads(lambda on: on.chat.search_memory(SOUGHT, quality="best")),
    "Session.customize": Verb(lambda on: on.chat.customize("Use metric units.", id="metric")),
    "Session.close": Verb(lambda on: on.ann.session("open").close()),
    "Session.compress": Verb(lambda on: on.ann.session("long").compress(), once=False),
    "Session.info": _reads(lambda on: on.chat.info()),
    "Session.rename": Verb(lambda on: on.chat.rename("Trees")),
    "Session.title": _reads(lambda on: on.chat.title()),
    "Session.branch": Verb(lambda on: on.chat.branch("tree1", "side"), once=False),
    "Session.export": _reads(lambda on: on.chat.export()),
    "Session.delete": Verb(lambda on: on.chat.delete(), in_steps=True),
    # Working
    "Working.get": _reads(lambda on: on.chat.working.get()),
    "Working.set": Verb(lambda on: on.chat.working.set({"step": 2}), once=False),
    "Working.patch": Verb(lambda on: on.chat.working.patch({"step": 3}), once=False),
    "Working.push": Verb(lambda on: on.chat.working.push("done", "dig"), once=False),
    "Working.clear": Verb(lambda on: on.chat.working.clear()),
    # User
    "User.reprocess": Verb(lambda on: on.ann.reprocess(by="rules", apply=True, again=True), in_steps=True),
    "User.sessions": _reads(lambda on: on.ann.sessions()),
    "User.sessions_page": _reads(lambda on: on.ann.sessions_page(limit=2)),
    "User.profile": _reads(lambda on: on.ann.profile()),
    "User.upsert_facts": Verb(
        lambda on: on.ann.upsert_facts([{"key": "city", "value": "Oslo"}, {"key": "pet", "value": "cat"}]), once=False
    ),
    "User.add_fact": Verb(lambda on: on.ann.add_fact("city", "Bergen"), once=False),
    "User.update_preference": Verb(lambda on: on.ann.update_preference("theme", "light"), once=False),
    "User.add_learning": Verb(lambda on: on.ann.add_learning("Wants sources."), once=False),
    "User.customize": Verb(lambda on: on.ann.customize("No emoji.", id="plain")),
    "User.add_memory": Verb(lambda on: on.ann.add_memory("Ann has a sister.", idempotency_key="sister")),
    "User.add_memories": Verb(lambda on: on.ann.add_memories(["Ann ran.", "Ann swam."], idempotency_key="sport")),
    "User.get_memory": _reads(lambda on: on.ann.get_memory("tea")),
    "User.get_memories": _reads(lambda on: on.ann.get_memories(["tea", "violin"])),
    "User.update_memory": Verb(lambda on: on.ann.update_memory("tea", content="Ann drinks no tea at all."), once=False),
    "User.update_memories": Verb(
        lambda on: on.ann.update_memories([{"id": i, "content": f"{i}, no more."} for i in ("tea", "violin")]),
        once=False,
    ),
    "User.history": _reads(lambda on: on.ann.history("tea")),
    "User.histories": _reads(lambda on: on.ann.histories(["tea", "violin"])),
    "User.list_memories": _reads(lambda on: on.ann.list_memories()),
    "User.search_memory": _reads(lambda on: on.ann.search_memory(SOUGHT)),
    "User.get_context": _reads(lambda on: on.ann.get_context(SOUGHT)),
    "User.undo": Verb(lambda on: on.ann.undo(session="chat"), in_steps=True),
    "User.redo": Verb(lambda on: on.ann.redo(on.ids["undone"]), in_steps=True),
    "User.quarantine": Verb(lambda on: on.ann.quarantine(session="chat", reason="doubt"), in_steps=True),
    "User.release": Verb(lambda on: on.ann.release(session="doubted"), in_steps=True),
    "User.forget": Verb(lambda on: on.ann.forget("tea")),
    "User.forget by filter": Verb(lambda on: on.ann.forget(where={"role": "user"}), in_steps=True),
    "User.erase": Verb(lambda on: on.ann.erase(), in_steps=True),
    "User.export": _reads(lambda on: on.ann.export()),
    "User.export_page": _reads(_pages),
    "User.import_records": Verb(lambda on: on.ann.import_records(IMPORTED), in_steps=True),
    "User.restore": Verb(lambda on: on.ann.restore("retired"), once=False),
    "User.maintain": Verb(lambda on: on.ann.maintain(), in_steps=True),
    "User.failures": _reads(lambda on: on.ann.failures()),
    "User.retry": Verb(lambda on: on.ann.retry("failure")),
    # what the user's handle leads to
    "Facts.upsert": Verb(lambda on: on.ann.facts.upsert([{"key": "city", "value": "Oslo"}]), once=False),
    "Facts.add": Verb(lambda on: on.ann.facts.add("hobby", "go"), once=False),
    "Facts.correct": Verb(lambda on: on.ann.facts.correct("hobby", "draughts", instead_of="chess"), once=False),
    "Facts.end": Verb(lambda on: on.ann.facts.end("hobby", "chess")),
    "Facts.reject": Verb(lambda on: on.ann.facts.reject("hobby", "chess")),
    "Facts.confirm": Verb(lambda on: on.ann.facts.confirm("hobby"), once=False),
    "Facts.pin": Verb(lambda on: on.ann.facts.pin("hobby")),
    "Facts.unpin": Verb(lambda on: on.ann.facts.unpin("city")),
    "Facts.get": _reads(lambda on: on.ann.facts.get("hobby")),
    "Facts.history": _reads(lambda on: on.ann.facts.history("hobby")),
    "Facts.list": _reads(lambda on: on.ann.facts.list()),
    "Facts.page": _reads(lambda on: on.ann.facts.page(limit=1)),
    "Learnings.add": Verb(lambda on: on.ann.learnings.add("Wants tables.", org_wide=True), once=False),
    "Learnings.get": _reads(lambda on: on.ann.learnings.get(on.ids["learning"])),
    "Learnings.confirm": Verb(lambda on: on.ann.learnings.confirm(on.ids["learning"]), once=False),
    "Learnings.contradict": Verb(lambda on: on.ann.learnings.contradict(on.ids["learning"]), once=False),
    "Learnings.restore": Verb(lambda on: on.ann.learnings.restore(on.ids["doubtful"]), once=False),
    "Learnings.top": _reads(lambda on: on.ann.learnings.top()),
    "Learnings.list": _reads(lambda on: on.ann.learnings.list()),
    "Learnings.page": _reads(lambda on: on.ann.learnings.page(limit=1)),
    "Customizations.add": Verb(lambda on: on.ann.customizations.add("Be kind.", id="kind")),
    "Customizations.update": Verb(lambda on: on.ann.customizations.update("brief", text="Be very brief.")),
    "Customizations.switch_on": Verb(lambda on: on.ann.customizations.switch_on("off")),
    "Customizations.switch_off": Verb(lambda on: on.ann.customizations.switch_off("brief")),
    "Customizations.reorder": Verb(lambda on: on.ann.customizations.reorder(["off", "brief"])),
    "Customizations.delete": Verb(lambda on: on.ann.customizations.delete("brief")),
    "Customizations.effective": _reads(lambda on: on.ann.customizations.effective()),
    "Customizations.list": _reads(lambda on: on.ann.customizations.list()),
    "Episodes.get": _reads(lambda on: on.ann.episodes.get(on.ids["episode"])),
    "Episodes.close": Verb(lambda on: on.ann.episodes.close("open")),
    "Episodes.list": _reads(lambda on: on.ann.episodes.list()),
    "Episodes.page": _reads(lambda on: on.ann.episodes.page()),
    "Graph.add_entity": Verb(lambda on: on.ann.graph.add_entity("Eve", type="person"), once=False),
    "Graph.add_alias": Verb(lambda on: on.ann.graph.add_alias("Max", "Maxwell")),
    "Graph.get": _reads(lambda on: on.ann.graph.get(on.ids["entity"])),
    "Graph.find": _reads(lambda on: on.ann.graph.find("Max", type="person")),
    "Graph.named_in": _reads(lambda on: on.ann.graph.named_in("Max was here.")),
    "Graph.entities": _reads(lambda on: on.ann.graph.entities()),
    "Graph.entities_page": _reads(lambda on: on.ann.graph.entities_page(limit=2)),
    "Graph.relate": Verb(lambda on: on.ann.graph.relate("Max", "likes", "Rome"), once=False),
    "Graph.end_relation": Verb(lambda on: on.ann.graph.end_relation(on.ids["relation"])),
    "Graph.relations": _reads(lambda on: on.ann.graph.relations()),
    "Graph.relations_page": _reads(lambda on: on.ann.graph.relations_page(ended=True)),
    "Graph.neighbours": _reads(lambda on: on.ann.graph.neighbours("Max")),
    "Graph.whole": _reads(lambda on: on.ann.graph.whole()),
    "Graph.merge": Verb(lambda on: on.ann.graph.merge("Max", "Maximilian"), once=False),
    "Graph.undo_merge": Verb(lambda on: on.ann.graph.undo_merge("Lizzy")),
    # Org
    "Org.add_memory": Verb(lambda on: on.org.add_memory("The office closes at six."), once=False),
    "Org.add_memories": Verb(lambda on: on.org.add_memories(["We have a cat.", "We have a dog."]), once=False),
    "Org.get_memory": _reads(lambda on: on.org.get_memory(on.ids["office"])),
    "Org.get_memories": _reads(lambda on: on.org.get_memories([on.ids["office"]])),
    "Org.update_memory": Verb(lambda on: on.org.update_memory(on.ids["office"], content="It is shut."), once=False),
    "Org.update_memories": Verb(
        lambda on: on.org.update_memories([{"id": on.ids["office"], "content": "It is open."}]), once=False
    ),
    "Org.history": _reads(lambda on: on.org.history(on.ids["office"])),
    "Org.histories": _reads(lambda on: on.org.histories([on.ids["office"]])),
    "Org.list_memories": _reads(lambda on: on.org.list_memories()),
    "Org.search_memory": _reads(lambda on: on.org.search_memory("When does the office open?")),
    "Org.export": _reads(lambda on: on.org.export()),
    "Org.export_page": _reads(lambda on: on.org.export_page(limit=2)),
    "Org.restore": Verb(lambda on: on.org.restore(on.ids["ended"]), once=False),
    "Org.maintain": Verb(lambda on: on.org.maintain(), in_steps=True),
    "Org.users": _reads(lambda on: on.org.users()),
    "Org.failures": _reads(lambda on: on.org.failures()),
    "Org.erase": Verb(lambda on: on.org.erase(), in_steps=True),
    "Org.forget": Verb(lambda on: on.org.forget(on.ids["office"])),
    "EntityCache.get": _reads(lambda on: on.org.entities.get("order", "1")),
    "EntityCache.get with a loader": Verb(lambda on: on.org.entities.get("order", "7", loader=load)),
    "EntityCache.put": Verb(lambda on: on.org.entities.put("order", "2", {"state": "sent"})),
    "EntityCache.invalidate": Verb(lambda on: on.org.entities.invalidate("order"), in_steps=True),
    "EntityCache.list": _reads(lambda on: on.org.entities.list()),
    "EntityCache.page": _reads(lambda on: on.org.entities.page("order")),
    "EntityCache.find": _reads(lambda on: on.org.entities.find("What about order 1?")),
    # Memory
    "Memory.work": Verb(lambda on: on.memory.work(), in_steps=True, later=True),
    "Memory.maintain": Verb(lambda on: on.memory.maintain(), in_steps=True),
    "Memory.reembed": Verb(lambda on: on.memory.reembed(), in_steps=True),
    "Memory.reprocess": Verb(lambda on: on.memory.reprocess(by="rules", apply=True, again=True), in_steps=True),
    "Memory.reprocess by model": Verb(lambda on: on.memory.reprocess(by="model", apply=True), in_steps=True),
    "Memory.reindex": _reads(lambda on: _reindex(on.memory)),
    "Memory.survey": _reads(lambda on: on.memory.survey()),
    "Memory.users": _reads(lambda on: on.memory.users()),
    "Memory.failures": _reads(lambda on: on.memory.failures()),
    "Memory.retry": Verb(lambda on: retry_failures(on.memory)),
    "Memory.check": _reads(lambda on: on.memory.check()),
    "Memory.examine": _reads(lambda on: on.memory.examine()),
}  # fmt: skip
"""Every verb that waits, by class and name. `open`, `start` and `close` of a memory are drilled on their own."""


async def retry_failures(memory: Memory) -> None:
    """Try all work again that was given up."""
    for failure in await memory.failures():
        await memory.retry(failure)


async def _reindex(memory: Memory) -> None:
    with contextlib.suppress(NotFound):  # there is no index beside this store, and that is for it to say
        await memory.reindex()


# ── the stage ────────────────────────────────────────────────────────────────────────────────────


def opened(store: Store, clock: ManualClock, embedder: str = "hashing") -> Memory:
    """A memory with everything that a call may have to wait for, in which nothing moves by itself."""
    episode: dict[str, Any] = {name: [] for name in ("people", "dates", "decisions", "open_questions")}
    episode |= {"title": "Trees", "text": "The user planted trees."}
    model = ScriptedModel(learned=learned(), summary={"summary": "The user planted trees."}, episode=episode)
    return Memory.open(
        store, embedder=HashingEmbedder(name=embedder), reranker=WordReranker(), llm=model, clock=clock, worker=False
    )


async def set_stage(store: Store) -> dict[str, str]:
    """Give Ann something of everything, and leave some work undone. Returns the ids that verbs need."""
    clock = ManualClock()
    ids: dict[str, str] = {}
    async with opened(Kept(store), clock, "earlier") as memory:
        await memory.user("ann").add_memory("Ann was born in a house by the sea.", id="sea")
        await memory.user("ann").add_memory("Ann likes the colour green.", id="retired")
        await memory.work()
    async with opened(Kept(store), clock) as memory:
        ann, org = memory.user("ann"), memory.org()
        for name in ("chat", "doubted", "mistaken", "open", "long"):
            told = [("m0", "My name is Ann and I live in Berlin."), ("m1", f"My sister Eve works at {name.title()}.")]
            told += [(f"tree{n}", f"I planted tree {n} in the garden.") for n in range(3)]
            prefix = "" if name == "chat" else f"{name}-"
            messages = [{"role": "user", "content": text, "id": f"{prefix}{id}"} for id, text in told]
            await ann.session(name).add_messages(messages)
        await ann.add_memory("Ann drinks green tea.", id="tea")
        await ann.add_memory("Ann plays the violin on Sundays.", id="violin")
        await memory.work()
        await ann.update_memory("tea", content="Ann drinks black tea now.")
        await ann.session("chat").compress()
        ids["episode"] = (await ann.session("chat").close())[0].id
        await ann.session("chat").working.set({"step": 1, "done": ["plan"]})
        await ann.facts.add("hobby", "chess")
        await ann.facts.add("city", "Berlin")
        await ann.facts.pin("city")
        await ann.update_preference("theme", "dark")
        ids["learning"] = (await ann.add_learning("Prefers short answers.")).id
        ids["doubtful"] = (await ann.add_learning("Likes long answers.", confidence=0.3)).id
        ids["ended"] = (await org.learnings.add("Nobody reads footnotes.", confidence=0.3)).id
        for _ in range(3):
            await ann.learnings.contradict(ids["doubtful"])
            await org.learnings.contradict(ids["ended"])
        await ann.customizations.add("Be brief.", id="brief")
        await ann.customizations.add("Rhyme.", id="off", on=False)
        for name in ("Max", "Maximilian", "Rome", "Liz", "Lizzy"):
            ids["entity"] = (await ann.graph.add_entity(name, type="person")).id
        ids["relation"] = (await ann.graph.relate("Max", "knows", "Liz")).id
        await ann.graph.merge("Liz", "Lizzy")
        await ann.quarantine(session="doubted")
        ids["undone"] = (await ann.undo(session="mistaken")).id
        ids["office"] = (await org.add_memory("The office opens at nine.")).id
        await org.entities.put("order", "1", {"state": "open"}, name="Order 1")
        await memory.user("bob", org="other").add_memory("Bob lives next door.", id="bob")
        await memory.work()
        await ann.session("fresh").add_messages(
            [{"role": "user", "content": "My brother Tom lives in Paris.", "id": "paris"}]
        )
    await _end_by_hand(store)
    return ids


async def _end_by_hand(store: Store) -> None:
    """What only time or bad luck brings about: a memory that was pruned, and a job that was given up."""
    home, now = Partition("default", "ann"), ManualClock()()
    (memory,) = await store.get(home, ["retired"], now)
    retired = memory.with_(valid_to=now, data=dict(memory.data) | {"retired": "hardly used"})
    about = {"job": "given up", "kind": "upkeep", "refs": [], "attempts": 5}
    failure = Record("failure", "failure", Scope(*home), "Unavailable: gone", about, created_at=now)
    await store.commit(Changes(home, put=(retired, failure)), now)


class Kept(SteppedStore):
    """A store that several memories use one after the other: closing them leaves it open. It can be made to fail.

    Each verb waits for a moment before and after, as on a server, so that there is always somebody else's turn.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda step: None)
        self.fail: Callable[[str], RecollectError | None] = lambda step: None

    def __getattr__(self, name: str) -> Any:
        verb = super().__getattr__(name)
        if not inspect.iscoroutinefunction(verb) or name == "wait_for_work":
            return verb

        async def called(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            if (error := self.fail(f"before {name}")) is not None:
                raise error
            answer = await verb(*arguments, **named)
            if (error := self.fail(f"after {name}")) is not None:
                raise error
            await asyncio.sleep(0)
            return answer

        return called

    async def close(self) -> None:
        pass


# ── what there is ────────────────────────────────────────────────────────────────────────────────

State = Counter[str]
_CHANCE = re.compile(rf'(?:{NOON_MS:012x}|{NOW_MS:012x})[0-9a-f]{{16}}|(?<="keys": \[)[^]]*')


async def state_of(store: Store) -> State:
    """Every living record of the org, without what chance put into it."""
    found: State = Counter()
    async for partition in named_partitions(store):
        if partition.org == "other":
            continue
        mark, more = None, True
        while more:
            delta = await store.changes(partition, mark)
            found.update(_told(record) for record in delta.put if record.layer not in LEFT_OUT)
            mark, more = delta.mark, delta.more
    return found


def _told(record: Record) -> str:
    body = json.loads(payload_of(record))
    data = body.get("data", {})
    for name in ("call", "usage_count", "last_used", "write"):
        data.pop(name, None)
    for view in ("covers", "covered"):
        if isinstance(data.get(view), dict):
            data[view].pop("born", None)
    told = [record.id, record.layer, *record.scope.partition, record.vector is not None, body]
    return _CHANCE.sub("0", json.dumps(told, sort_keys=True))


async def views_of(memory: Memory) -> dict[str, Any]:
    """What callers see of the stage, through the indexes of this memory."""
    ann, org = memory.user("ann"), memory.org()
    return {
        "search": sorted(hit.id for hit in await ann.search_memory(SOUGHT, limit=100)),
        "memories": await ann.list_memories(),
        "profile": await ann.profile(),
        "learnings": await ann.learnings.list(include_retired=True),
        "customizations": await ann.customizations.list(),
        "episodes": await ann.episodes.list(),
        "graph": await ann.graph.whole(),
        "entities": await org.entities.list(),
        "shared": await org.list_memories(),
        "window": await ann.session("chat").window(),
        "state": await ann.session("chat").working.get(),
    }
