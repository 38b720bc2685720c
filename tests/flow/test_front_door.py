"""The front door: handles carry the scope, and a memory that is not open says so."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import gc
import inspect
import pickle
import sys
import time
from functools import partial

import pytest

from recollect import Memory
from recollect.errors import RecollectError, Unavailable, ValidationError
from recollect.settings import Settings
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import CountingStore, HashingEmbedder


async def test_a_memory_must_be_opened_before_it_is_used(store_url):
    memory = Memory.open(store_url)
    with pytest.raises(Unavailable, match=r"async with Memory\.open.* await Memory\.open") as caught:
        memory.user("ann")
    assert caught.value.field == "memory"
    for verb in (memory.work, memory.maintain, memory.survey, memory.users, memory.check):
        with pytest.raises(Unavailable):
            await verb()


async def test_a_memory_that_was_closed_says_so_and_says_where_it_is_while_it_is_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = Memory.open("sqlite:///notes.db")
    assert repr(memory) == "<Memory not open>"
    async with memory:
        assert repr(memory) == "<Memory in sqlite:///notes.db>"
    assert repr(memory) == "<Memory closed>"
    with pytest.raises(Unavailable, match="closed; open it again, and take a new handle"):
        memory.user("ann")


async def test_tokens_are_only_called_exact_where_they_are_counted(monkeypatch):
    async with Memory.open("memory://", model="claude-opus") as memory:
        assert memory.describe()["tokens"] == "estimated"
    for is_installed, told in (
        (object(), "as gpt-4o counts"),
        (None, 'estimated; as gpt-4o counts with "recollect[tokens]"'),
    ):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, found=is_installed: found)
        async with Memory.open("memory://", model="gpt-4o", embedder="none", worker=False) as memory:
            assert memory.describe()["tokens"] == told


@pytest.mark.parametrize(
    ("verb", "arguments", "meant"),
    [
        ("search_memory", {"layer": "longterm"}, "long_term"),
        ("search_memory", {"quality": "bst"}, "best"),
        ("search_memory", {"where": {"created_at": {"$gt": 1}}}, "gt"),
        ("search_memory", {"where": {"sesion": "monday"}}, "session"),
        ("get_context", {"sections": ["profil"]}, "profile"),
        ("get_context", {"layers": ["facts"]}, "fact"),
    ],
)
async def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(verb, arguments, meant):
    async with Memory.open("memory://") as memory:
        with pytest.raises(ValidationError, match=rf"did you mean {meant}\?"):
            await getattr(memory.user("ann"), verb)("Where is the key?", **arguments)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("topic", "metadata.topic"), ("metdata.topic", "metadata.topic"), ("metadata", "metadata.NAME")],
)
async def test_a_label_that_is_filtered_by_its_bare_name_is_told_how_to_write_it(key, meant):
    async with Memory.open("memory://") as memory:
        with pytest.raises(ValidationError, match=rf"for a label of your own use {meant};.*metadata\.NAME"):
            await memory.user("ann").search_memory("Where is the key?", where={key: "travel"})


async def test_an_address_that_leads_nowhere_is_told_with_what_to_write():
    async def refusal(url):
        with pytest.raises(RecollectError) as caught:
            await Memory.open(url)
        return str(caught.value)

    assert "did you mean postgresql://?" in await refusal("postgressql://server/notes")
    assert "did you mean" not in await refusal("http://server/notes")


async def test_a_file_that_cannot_be_opened_is_named_with_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def refusal(url):
        with pytest.raises(Unavailable) as caught:
            await Memory.open(url)
        return caught.value.message

    assert await refusal("sqlite:///no/notes.db") == f"there is no folder {tmp_path / 'no'}; create it first"
    slash_missing = await refusal(f"sqlite://{tmp_path}/notes.db")
    assert slash_missing.endswith(f"or write sqlite:///{tmp_path}/notes.db (four slashes)")
    assert await refusal("sqlite:///no.db?mode=ro") == f"there is no database {tmp_path / 'no.db'}"
    (tmp_path / "folder").mkdir()
    assert str(tmp_path / "folder") in await refusal("sqlite:///folder")


async def test_a_memory_can_be_opened_with_await(store_url):
    memory = await Memory.open(store_url, worker=False)
    assert memory.describe()["worker"] == "elsewhere"
    await memory.close()


def test_calling_the_class_says_to_open_it():
    with pytest.raises(ValidationError, match=r"async with Memory\.open"):
        Memory()
    with pytest.raises(ValidationError, match=r"async with Memory\.open"):
        Memory("memory://")


def test_a_plain_with_names_the_memory_for_sync_code():
    with pytest.raises(ValidationError, match=r"recollect\.sync"), Memory.open("memory://"):
        pass


def test_a_memory_of_another_event_loop_refuses_to_write_and_can_be_closed(tmp_path):
    memory = Memory.open(tmp_path / "notes.db")

    async def remember():
        await memory.start()
        await memory.user("ann").add_memory("The key is under the pot.")

    asyncio.run(remember())
    with pytest.raises(Unavailable, match=r"another event loop.*recollect\.sync"):
        asyncio.run(memory.user("ann").add_memory("The key is on the shelf."))
    asyncio.run(memory.close())


async def test_a_memory_is_not_read_from_another_event_loop_while_this_one_changes_it(store_url, clock):
    async with Memory.open(store_url, clock=clock, worker=False) as memory:
        ann = memory.user("ann")
        note = await ann.add_memory("The key is under the pot.")
        chat = ann.session("monday")
        calls = (
            lambda: ann.search_memory("key"),
            lambda: ann.get_memory(note.id),
            lambda: ann.list_memories(),
            lambda: ann.sessions(),
            lambda: ann.profile(),
            lambda: chat.get_context("Where is the key?"),
            lambda: chat.window(),
            lambda: chat.messages(),
            lambda: chat.working.get(),
        )
        for call in calls:
            with pytest.raises(Unavailable, match=r"another event loop.*recollect\.sync"):
                await asyncio.to_thread(lambda call=call: asyncio.run(call()))


async def test_a_closed_memory_refuses_every_verb_of_every_handle(store_url, clock):
    async with Memory.open(store_url, clock=clock, worker=False) as memory:
        ann = memory.user("ann")
        chat = ann.session("monday")
        await chat.add_message("user", "hello")
    calls = (
        lambda: chat.add_message("user", "more"),
        lambda: chat.window(),
        lambda: chat.working.get(),
        lambda: chat.working.set({"step": 1}),
        lambda: chat.get_context("hello?"),
        lambda: chat.export(),
        lambda: chat.delete(),
        lambda: ann.add_memory("a text"),
        lambda: ann.search_memory("hello"),
        lambda: ann.sessions(),
        lambda: ann.export(),
        lambda: ann.erase(),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            await call()


async def test_closing_or_starting_twice_does_it_once(store_url):
    memory = Memory.open(store_url, worker=False)
    assert await memory.start() is memory
    assert await memory.start() is memory
    await memory.user("ann").add_memory("kept")
    await memory.close()
    await memory.close()


async def test_a_store_that_fails_to_close_keeps_nothing_else_open(clock):
    class Failing(CountingStore):
        async def close(self):
            raise Unavailable(field="store")

    class Connected(HashingEmbedder):
        is_connected = True

        async def disconnect(self):
            self.is_connected = False

    embedder = Connected()
    memory = await Memory.open(Failing(InMemoryStore()), embedder=embedder, clock=clock)
    with pytest.raises(Unavailable):
        await memory.close()
    assert not embedder.is_connected


async def test_a_memory_can_be_reopened_after_closing(tmp_path):
    memory = Memory.open(tmp_path / "notes.db", worker=False)
    async with memory:
        await memory.user("ann").add_memory("The spare key is under the pot.")
    async with memory:
        hits = await memory.user("ann").search_memory("spare key")
    assert [hit.content for hit in hits] == ["The spare key is under the pot."]


async def test_a_package_can_bring_a_store_with_a_url_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "their_store.py").write_text(
        "from recollect.stores.in_memory import InMemoryStore\n"
        "class TheirStore(InMemoryStore):\n"
        "    def describe(self): return {'store': 'theirs'}\n"
        "async def open_url(url, *, busy_timeout_s): return TheirStore()\n"
    )
    installed = tmp_path / "their_store-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: their-store\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[recollect.stores]\ntheirs = their_store\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    async with Memory.open("theirs://anywhere") as memory:
        await memory.user("ann").add_memory("It works.")
        assert memory.describe()["store"] == {"store": "theirs"}


async def test_a_custom_store_can_be_passed_instead_of_a_url(clock):
    store = InMemoryStore()
    async with Memory.open(store, clock=clock, worker=False) as memory:
        await memory.user("ann").add_memory("kept in my own store")
        assert (await store.survey(clock())).records == {"long_term": 1}


@pytest.mark.parametrize("url", [5, None.__class__, b"memory://", ["memory://"]])
async def test_something_that_is_not_a_store_is_refused(url):
    with pytest.raises(ValidationError) as caught:
        await Memory.open(url).start()
    assert caught.value.field == "url"


@pytest.mark.parametrize("url", ["", "notes.db", "ftp://host/x", "mysql://localhost", "sqlite://", "memory:/"])
async def test_an_unknown_url_is_refused_with_the_known_ones(url):
    with pytest.raises(ValidationError, match=r"sqlite:/") as caught:
        await Memory.open(url).start()
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("notes.db", "sqlite:///notes.db"),
        ("/home/ann/notes.db", "sqlite:////home/ann/notes.db"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///~/notes.db", "whole path"),
    ],
)
async def test_common_ways_to_write_a_file_are_refused_with_what_to_write(url, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValidationError, match=told):
        await Memory.open(url).start()
    assert list(tmp_path.iterdir()) == []


async def test_both_names_of_postgresql_lead_to_it():
    told = set()
    for scheme in ("postgres", "postgresql"):
        with pytest.raises(Unavailable) as caught:
            await Memory.open(f"{scheme}://ann@127.0.0.1:1/memories").start()
        told.add(caught.value.message)
    assert len(told) == 1 and "PostgreSQL" in told.pop()


def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ValidationError, match=r"did you mean conversation_days\b"):
        Memory.open("memory://", conversation_day=3)


async def test_a_handle_carries_its_scope_into_every_record(memory):
    chat = memory.user("ann", org="acme").session("monday", agent="support")
    message = await chat.add_message("user", "hello")
    record = await memory.user("ann", org="acme").get_memory(message.id)
    scope = record.scope
    assert (scope.org, scope.user, scope.agent, scope.session) == ("acme", "ann", "support", "monday")
    knowledge = await memory.user("ann", org="acme").add_memory("Ann likes tea.")
    assert (knowledge.scope.org, knowledge.scope.user, knowledge.scope.session) == ("acme", "ann", "")
    assert (chat.id, memory.user("ann").id) == ("monday", "ann")


async def test_two_users_never_see_each_other(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    await ann.session("s").add_message("user", "My locker code is 7431.")
    kept = await ann.add_memory("The locker is in the cellar.")
    await memory.work()
    assert await bob.search_memory("locker code cellar") == []
    assert await bob.session("s").window() == []
    assert await bob.sessions() == []
    assert (await bob.list_memories())[0] == []
    with pytest.raises(RecollectError):
        await bob.get_memory(kept.id)
    assert "7431" not in (await bob.session("s").get_context("What is the locker code?")).system


async def test_the_same_user_id_in_two_orgs_is_two_users(memory):
    await memory.user("ann", org="acme").add_memory("acme's secret recipe")
    assert await memory.user("ann", org="globex").search_memory("secret recipe") == []
    assert await memory.user("ann").search_memory("secret recipe") == []


def handles_of(memory):
    ann = memory.user("ann", org="acme")
    chat = ann.session("monday", agent="support")
    return (
        ann, chat, memory.org("acme"), memory.entities("acme"), ann.graph, ann.learnings, ann.episodes,
        ann.customizations.of_agent("support"), chat.working,
    )  # fmt: skip


async def test_every_handle_says_whose_it_is(memory):
    assert [repr(handle) for handle in handles_of(memory)] == [
        "<User 'ann' of org 'acme'>",
        "<Session 'monday' of agent 'support', user 'ann', org 'acme'>",
        "<Org 'acme'>",
        "<EntityCache of org 'acme'>",
        "<Graph of user 'ann', org 'acme'>",
        "<Learnings of user 'ann', org 'acme'>",
        "<Episodes of user 'ann', org 'acme'>",
        "<Customizations of agent 'support', user 'ann', org 'acme'>",
        "<Working of session 'monday', agent 'support', user 'ann', org 'acme'>",
    ]


async def test_a_copy_of_what_holds_a_handle_shares_the_handle(memory):
    for handle in (memory, *handles_of(memory)):
        state = {"handle": handle, "step": [1]}
        assert copy.deepcopy(state)["handle"] is handle
        assert copy.copy(handle) is handle
        with pytest.raises(TypeError, match="open a memory there"):
            pickle.dumps(state)


async def test_two_handles_of_one_user_are_the_same_user(memory):
    await memory.user("ann").session("s").add_message("user", "hello from here")
    (message,) = await memory.user("ann").session("s").window()
    assert message.content == "hello from here"


async def test_operators_see_who_has_something_and_how_much(memory):
    await memory.user("ann").add_memory("one")
    await memory.user("bob", org="acme").session("s").add_interaction("hi", "hello")
    assert {(each.org, each.user) for each in await memory.users()} == {("default", "ann"), ("acme", "bob")}
    survey = await memory.survey()
    assert survey.records == {"long_term": 1, "conversation": 2}
    assert survey.jobs_waiting >= 2


async def test_pages_of_users_list_everyone_who_has_anything_and_nobody_else(memory):
    org = memory.org("acme")
    for number in range(40):
        user = memory.user(f"user-{number:02}", org="acme")
        if number % 3 == 0:
            await user.session("s").add_message("user", "hello")
        elif number % 3 == 1:
            await user.add_memory("no message, but a memory")
        else:
            record = await user.add_memory("gone in a moment")
            await user.forget([record.id])
    listed, after = [], None
    while True:
        page, after = await org.users(limit=15, after=after)
        listed += page
        if after is None:
            break
    assert listed == [f"user-{number:02}" for number in range(40) if number % 3 < 2]
    assert [each.user for each in await memory.users()] == listed
    assert await memory.check() == []


async def test_a_look_at_the_first_users_leaves_the_event_loop_no_listing_to_close(tmp_path):
    opened = partial(Memory.open, f"sqlite:///{tmp_path}/notes.db", embedder=HashingEmbedder(), worker=False)
    async with opened() as memory:
        for user in ("ann", "bob"):
            await memory.user(user).add_memory("The boat is red.")
    left, usual = [], sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=lambda each: left.append(each.__qualname__) or usual.finalizer(each))
    try:
        async with opened() as memory:  # which looks at the oldest memories
            page, after = await memory.org().users(limit=1)
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*usual)
    assert (len(page), after is None, left) == (1, False, [])


async def test_describe_tells_which_parts_are_in_use(memory, store_name):
    told = memory.describe()
    assert told["store"]["store"] == store_name
    assert told["embedder"] == "hashing-64"
    assert told["worker"] == "elsewhere"


async def test_search_by_words_alone_works_without_an_embedder(open_memory):
    memory = await open_memory(embedder="none")
    assert memory.describe()["embedder"] == "none: words alone"
    await memory.user("ann").add_memory("The boiler was serviced in May.")
    await memory.work()
    (hit,) = await memory.user("ann").search_memory("boiler service")
    assert set(hit.legs) == {"words", "recency", "importance"}


async def test_the_default_embedder_needs_nothing_but_the_package(open_memory):
    memory = await open_memory(embedder=None)
    await memory.user("ann").add_memory("My puppy chewed the sofa.")
    await memory.work()
    (hit,) = await memory.user("ann").search_memory("What did the dog do?")
    assert hit.legs["meaning"].score > 0


@pytest.mark.parametrize(("part", "lacks"), [("embedder", "name, dimensions, embed"), ("reranker", "name, score")])
def test_a_part_that_lacks_its_methods_is_refused_on_opening(part, lacks):
    with pytest.raises(ValidationError, match=f"{part}: must have .*; this one lacks {lacks}"):
        Memory.open("memory://", **{part: object()})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no_such_setting", 1),
        ("embedder", "magic"),
        ("worker", "perhaps"),
        ("lease_s", 0),
        ("window_tokens", -5),
        ("claim_jobs", "many"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name, value):
    with pytest.raises(ValidationError) as caught:
        Memory.open("memory://", **{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("clock", [5, None, "noon", time.time, time.gmtime, lambda at: at])
def test_what_does_not_return_whole_milliseconds_is_not_accepted_as_a_clock(clock):
    with pytest.raises(ValidationError, match="clock: must be a function that returns the milliseconds since 1970"):
        Memory.open("memory://", clock=clock)


@pytest.mark.parametrize("settings", [5, {}, {"window_turns": 3}, "", Settings])
def test_only_a_settings_object_is_accepted_as_settings(settings):
    with pytest.raises(ValidationError, match="settings: must be a Settings object; pass a single setting by its name"):
        Memory.open("memory://", settings=settings)


NAMED = {*inspect.signature(Memory.open).parameters, *(each.name for each in dataclasses.fields(Settings))} - {
    "changes"
}


@pytest.mark.parametrize("name", sorted(NAMED))
@pytest.mark.parametrize("value", [object(), b"bytes", [5], {5: 5}], ids=lambda value: type(value).__name__)
async def test_an_impossible_value_for_any_parameter_is_refused_by_name(name, value):
    with pytest.raises(ValidationError) as caught:
        await Memory.open(**{"url": "memory://"} | {name: value}).start()
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("verb", "field", "value"),
    [
        ("maintain", "dry_run", "no"),
        ("reembed", "dry_run", None),
        ("reembed", "user", 5),
        ("reembed", "org", ""),
        ("reembed", "told", "told"),
        ("reprocess", "user", 5),
        ("reprocess", "told", 5),
        ("reindex", "user", ["ann"]),
        ("retry", "failure", "an id"),
        ("masked", "text", 5),
    ],
)
async def test_wrong_arguments_of_operator_verbs_are_refused_by_name(memory, verb, field, value):
    with pytest.raises(ValidationError) as caught:
        done = getattr(memory, verb)(**{field: value})
        await done
    assert caught.value.field == field


@pytest.mark.parametrize("agent", [[], {}, 0, False, 5])
async def test_an_agent_is_a_name_or_none(memory, agent):
    ann = memory.user("ann")
    for call in (lambda: ann.session("s", agent=agent), lambda: ann.customizations.of_agent(agent)):
        with pytest.raises(ValidationError, match="agent"):
            call()
    for nobody in ("", None):
        assert (await ann.session("s", agent=nobody).add_message("user", "hello")).role == "user"
