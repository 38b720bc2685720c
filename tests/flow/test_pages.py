"""Lists in pages: every item once and in order, whatever happens meanwhile; cursors of other lists are refused."""

from __future__ import annotations

import json

import pytest

from recollect import cursors
from recollect.errors import ValidationError
from recollect.policies.graph_views import Entity
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore


async def pages(call, **more):
    """All pages of a list, until there is no next one."""
    found, after = [], None
    while len(found) < 20:
        page, after = await call(after=after, **more)
        found.append(list(page))
        if after is None:
            return found
    raise AssertionError("the pages do not end")


async def filled(memory):
    """A user and an org with a few of everything that is listed in pages."""
    ann, acme = memory.user("ann", org="acme"), memory.org("acme")
    for number in range(5):
        await ann.add_learning(f"Lesson {number} for Ann.")
        await ann.add_fact(f"key{number}", f"value {number}")
        await ann.update_preference(f"setting{number}", f"value {number}")
        await ann.graph.relate(f"Friend {number}", "lives_in", f"Town {number}")
        await acme.entities.put("order", str(number), {"n": number})
        await acme.entities.put("customer", str(number), {"n": number})
    await acme.learnings.add("A lesson for everybody.")
    return ann, acme


def lists(ann, acme):
    """Each list that comes in pages, and the same list whole."""
    return {
        "learnings": (ann.learnings.page, ann.learnings.list),
        "facts": (ann.facts.page, ann.facts.list),
        "preferences": (ann.preferences.page, ann.preferences.list),
        "entities": (ann.graph.entities_page, ann.graph.entities),
        "relations": (ann.graph.relations_page, ann.graph.relations),
        "objects": (acme.entities.page, acme.entities.list),
    }


@pytest.mark.parametrize("name", ["learnings", "facts", "preferences", "entities", "relations", "objects"])
async def test_the_pages_of_a_list_are_the_list(memory, name):
    page, whole = lists(*await filled(memory))[name]
    for limit in (1, 2, 1_000):
        found = await pages(page, limit=limit)
        assert [each for some in found for each in some] == list(await whole())
        assert all(len(some) <= limit for some in found)


async def test_a_cursor_of_somebody_else_or_an_edited_one_is_refused(memory):
    ann, acme = await filled(memory)
    bob = memory.user("bob")
    for number in range(3):
        for user in (ann, bob):
            await user.session(f"chat {number}").add_message("user", f"Hello {number}.")
        await bob.add_fact(f"thing{number}", "x")
        await bob.learnings.add(f"Bob's lesson {number}.")
        await bob.update_preference(f"setting{number}", "x")
        await bob.graph.relate(f"Friend {number}", "lives_in", f"Town {number}")
    his = lists(bob, acme) | {"sessions": (bob.sessions_page, bob.sessions)}
    hers = lists(ann, acme) | {"sessions": (ann.sessions_page, ann.sessions)}
    for name in hers.keys() - {"objects"}:  # the store pages these
        page, _ = hers[name]
        own, foreign = (await page(limit=1))[1], (await his[name][0](limit=1))[1]
        assert (await page(limit=1, after=own))[0]
        first, position, check = json.loads(own)
        edited = [first, [*position[:-1], position[-1] + 1] if isinstance(position, list) else position + "1", check]
        for wrong in (foreign, json.dumps(edited)):
            with pytest.raises(ValidationError, match="not a cursor of this list"):
                await page(limit=1, after=wrong)


async def test_a_cursor_of_another_list_is_refused(memory):
    every = lists(*await filled(memory))
    ends = {name: (await page(limit=1))[1] for name, (page, _) in every.items()}
    for name, (page, _) in every.items():
        for after in (
            *(cursor for other, cursor in ends.items() if other != name),
            "",
            "x",
            "[]",
            '["fact", "x"]',
            5,
        ):
            with pytest.raises(ValidationError) as caught:
                await page(after=after)
            assert caught.value.field == "after", (name, after)


async def test_what_is_ended_or_forgotten_meanwhile_hides_nothing_from_the_pages(memory):
    ann, _ = await filled(memory)
    (first,), after = await ann.facts.page(limit=1)
    await ann.forget(first.id)
    await ann.facts.end("key1")
    assert [fact.value for fact in (await ann.facts.page(limit=2, after=after))[0]] == ["value 2", "value 3"]
    (first,), after = await ann.learnings.page(limit=1)
    await ann.forget(first.id)
    assert (await ann.learnings.page(limit=1, after=after))[0][0].content == "Lesson 1 for Ann."


async def test_pages_keep_to_the_type_that_was_asked_for(memory):
    ann, acme = await filled(memory)
    await ann.add_learning("No, the other one.", type="correction")
    corrections = await pages(ann.learnings.page, type="correction", limit=1)
    orders = [each.id for page in await pages(acme.entities.page, type="order", limit=3) for each in page]
    assert ([len(page) for page in corrections], orders) == ([1], ["0", "1", "2", "3", "4"])
    towns = [each for page in await pages(ann.graph.relations_page, entity="Town 3", limit=1) for each in page]
    assert [each.content for each in towns] == ["Friend 3 lives in Town 3"]


async def test_a_page_of_relations_may_show_what_has_ended_in_their_order_of_birth(memory):
    ann = memory.user("ann")
    for town in ("Oslo", "Bergen", "Tromsø"):
        await ann.graph.relate("Ana", "lives_in", town)
    found = [each for page in await pages(ann.graph.relations_page, ended=True, limit=1) for each in page]
    assert {each.content for each in found} == {f"Ana lives in {town}" for town in ("Oslo", "Bergen", "Tromsø")}
    assert [each.content for each in (await ann.graph.relations_page())[0]] == ["Ana lives in Tromsø"]


@pytest.mark.parametrize("name", ["learnings", "facts", "preferences"])
async def test_a_page_reads_what_it_shows_and_not_the_list_before_or_after_it(open_memory, store_url, name):
    store = CountingStore(await open_store(store_url))
    ann, acme = await filled(await open_memory(store))
    page, _ = lists(ann, acme)[name]
    _, after = await page(limit=2)
    store.reset()
    found, _ = await page(limit=2, after=after)
    assert (len(found), store.rows) == (2, 3)  # and one more, to know whether there is a next page


async def test_a_page_of_a_graph_views_only_what_it_shows(memory, monkeypatch):
    ann, _ = await filled(memory)
    viewed, of = [], Entity.of
    monkeypatch.setattr(Entity, "of", lambda record, read: viewed.append(record.id) or of(record, read))
    await ann.graph.entities_page(limit=2)
    assert len(viewed) == 2
    viewed.clear()
    await ann.graph.relations_page(limit=2)
    assert len(viewed) == 4


@pytest.mark.parametrize("place", ["[-1, 0]", "[1]", "[1, 2, 3, 4]", f"[{2**70}, 0]", f"[0, {2**70}]", "[true, 1]"])
async def test_a_made_up_place_is_no_cursor(memory, place):
    ann, _ = await filled(memory)
    for name, page in (("fact", ann.facts.page), ("learning", ann.learnings.page)):
        with pytest.raises(ValidationError):
            await page(after=f'["{name}", {place}]')
        with pytest.raises(ValidationError):
            await page(after=cursors.place(("default", "ann", name), name, json.loads(place)))
