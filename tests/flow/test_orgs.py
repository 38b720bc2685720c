"""What an org shares: the same verbs as for a user's memories, and every user of the org finds the result."""

from __future__ import annotations

import pytest

from recollect.errors import NotFound, ValidationError
from recollect.testing.fakes import WrongEmbedder


async def test_what_an_org_shares_is_added_changed_found_and_forgotten_like_a_users_memories(memory):
    acme, ann = memory.org("acme"), memory.user("ann", org="acme")
    hours, dress = await acme.add_memories(
        ["The office opens at nine.", {"content": "Shorts are fine.", "id": "dress"}]
    )
    changed = await acme.update_memory(hours.id, content="The office opens at eight.", version=hours.version)
    assert [each.content for each in await acme.history(hours.id)] == [
        "The office opens at nine.",
        "The office opens at eight.",
    ]
    assert [each.id for each in await acme.get_memories(["dress", "gone", hours.id])] == ["dress", hours.id]
    for searcher in (acme, ann):
        assert (await searcher.search_memory("When does the office open?"))[0].id == changed.id
    exported = await acme.export()
    assert (exported[0]["org"], exported[0]["user"]) == ("acme", "")
    assert {each["id"] for each in exported[1:] if each["layer"] == "long_term"} == {hours.id, dress.id}
    assert (await acme.forget(where={"id": "dress"})).count == 1
    assert [each.id for each in (await acme.list_memories())[0]] == [hours.id]


async def test_what_an_org_shares_is_none_of_a_users_or_another_orgs_own(memory):
    shared = await memory.org("acme").add_memory("The office opens at nine.")
    for other in (memory.user("ann", org="acme"), memory.org("globex")):
        with pytest.raises(NotFound):
            await other.get_memory(shared.id)
        with pytest.raises(NotFound):
            await other.update_memory(shared.id, content="It never opens.")
    assert await memory.org("globex").search_memory("When does the office open?") == []


async def test_an_org_searches_what_it_shares_and_nothing_of_its_users(memory):
    await memory.user("ann", org="acme").add_memory("Ann's office has a plant.")
    assert await memory.org("acme").search_memory("What is in the office?") == []


async def test_an_org_has_no_episodes(memory):
    for call in (
        memory.org().add_memory("They met.", layer="episodic"),
        memory.org().add_memories(["Tea.", {"content": "They met.", "layer": "episodic"}]),
    ):
        with pytest.raises(ValidationError, match="must be long_term") as caught:
            await call
        assert caught.value.field in ("layer", "items.1.layer")
    assert (await memory.org().list_memories())[0] == []


async def test_work_that_was_given_up_for_what_an_org_shares_is_listed_before_that_of_its_users(open_memory, clock):
    memory = await open_memory(embedder=WrongEmbedder(lambda rows: rows * float("nan")))
    acme = memory.org("acme")
    await acme.add_memory("The office opens at nine.")
    await acme.add_memory("Shorts are fine.")
    for name in ("ann", "bob"):
        await memory.user(name, org="acme").add_memory(f"{name} has a plant.")
    for _ in range(6):
        await memory.work()
        clock.advance(minutes=10)
    found, after = await acme.failures()
    assert ([each.scope.user for each in found], after) == (["", "", "ann", "bob"], None)
    paged, after = await acme.failures(limit=1)
    while after is not None:
        more, after = await acme.failures(limit=1, after=after)
        paged += more
    assert paged == found
    await memory.retry(found[0])
    assert (await acme.failures())[0] == found[1:]
