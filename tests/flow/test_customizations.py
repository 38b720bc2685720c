"""Customizations: standing instructions in an order, on or off, above the defaults of the org."""

from __future__ import annotations

import asyncio

import pytest

from recollect.customizations import PLACES, Customizations
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.filters import Filter
from recollect.layers import LAYERS
from recollect.ledger import Ledger
from recollect.records import Scope
from recollect.stores import open_store
from recollect.testing.fakes import ManualClock

ANN = Scope(user="ann", agent="support")


@pytest.fixture
def mine(ledger):
    return Customizations(ledger, ANN)


async def texts(customizations: Customizations, **how) -> list[str]:
    return [each.text for each in await customizations.list(**how)]


async def effective(customizations: Customizations) -> list[str]:
    return [each.text for each in await customizations.effective()]


async def test_instructions_are_listed_in_their_order(mine):
    added = [await mine.add(text) for text in ("Be brief.", "Use metres.", "No jokes.")]
    assert await mine.list() == added
    await mine.reorder([added[2].id, added[0].id, added[1].id])
    assert await texts(mine) == ["No jokes.", "Be brief.", "Use metres."]
    await mine.add("Say please.")
    assert (await texts(mine))[-1] == "Say please."
    assert added[0].to_dict() == {
        "id": added[0].id, "text": "Be brief.", "on": True, "agent": "support",
        "created_at": "2026-03-01T12:00:00Z", "org_wide": False, "version": added[0].version,
    }  # fmt: skip


async def test_an_instruction_can_be_changed_switched_off_and_deleted(mine):
    brief = await mine.add("Be brief.", id="brief")
    assert (await mine.update("brief", text="Be very brief.")).text == "Be very brief."
    assert not (await mine.switch_off("brief")).on
    assert await texts(mine) == ["Be very brief."]
    assert await texts(mine, include_off=False) == []
    assert await effective(mine) == []
    assert (await mine.switch_on("brief")).created_at == brief.created_at
    assert await effective(mine) == ["Be very brief."]
    await mine.delete("brief")
    assert await mine.list() == []
    with pytest.raises(NotFound):
        await mine.delete("brief")
    await mine.add("Be brief again.", id="brief")
    assert await texts(mine) == ["Be brief again."]


async def test_defaults_of_the_org_stand_below_a_users_own(ledger, mine):
    org = Customizations(ledger, Scope(agent="support"))
    await org.add("Greet by name.", id="greet")
    await org.add("Offer a call.", id="call")
    await mine.add("Be brief.")
    assert await effective(mine) == ["Greet by name.", "Offer a call.", "Be brief."]
    assert [each.org_wide for each in await mine.effective()] == [True, True, False]
    await mine.switch_off("call")
    await mine.update("greet", text="Do not greet.")
    assert await effective(mine) == ["Do not greet.", "Be brief."]
    assert await effective(Customizations(ledger, Scope(user="bob", agent="support"))) == [
        "Greet by name.", "Offer a call.",
    ]  # fmt: skip
    await mine.delete("call")
    assert await effective(mine) == ["Do not greet.", "Offer a call.", "Be brief."]


async def test_changing_a_default_for_one_user_is_guarded_by_the_version_read(ledger, mine):
    org = Customizations(ledger, Scope(agent="support"))
    read = await org.add("Greet by name.", id="greet")
    await org.update("greet", text="Greet by first name.")
    with pytest.raises(Conflict):
        await mine.update("greet", text="Do not greet.", version=read.version)
    (greet,) = await mine.effective()
    own = await mine.update("greet", text="Do not greet.", version=greet.version)
    assert (await mine.update("greet", text="Wave.", version=own.version)).text == "Wave."
    with pytest.raises(Conflict):
        await mine.update("greet", text="Bow.", version=own.version)


async def test_instructions_without_an_agent_are_for_all_agents(ledger, mine):
    await Customizations(ledger, Scope()).add("Be honest.")
    await Customizations(ledger, Scope(user="ann")).add("Call me Annie.")
    await Customizations(ledger, Scope(user="ann", agent="sales")).add("No offers.")
    await mine.add("Be brief.")
    assert await effective(mine) == ["Be honest.", "Call me Annie.", "Be brief."]
    assert await effective(Customizations(ledger, Scope(agent="support"))) == ["Be honest."]
    assert await effective(Customizations(ledger, Scope("acme", "ann", "support"))) == []


async def test_an_id_can_be_taken_only_once(mine):
    await mine.add("Be brief.", id="brief")
    with pytest.raises(Conflict) as caught:
        await mine.add("Be long.", id="brief")
    assert caught.value.field == "id"
    assert await texts(mine) == ["Be brief."]


async def test_the_number_of_instructions_is_limited_however_many_write_at_once(ledger, mine):
    results = await asyncio.gather(*(mine.add(f"Rule {n}.") for n in range(PLACES + 10)), return_exceptions=True)
    assert sum(isinstance(result, TooLarge) for result in results) == 10
    assert len(set(await texts(mine))) == PLACES
    kept = [record async for record in ledger.walk(Filter(ANN.partition))]
    assert (len(kept), {record.data["order"] for record in kept}) == (PLACES, set(range(PLACES)))
    await mine.reorder([each.id for each in (await mine.list())[::-1]])
    await mine.delete((await mine.list())[0].id)
    await mine.add("One more.")


async def test_two_processes_that_add_at_once_both_keep_their_instruction(tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    stores = [await open_store(url), await open_store(url)]
    sides = [Customizations(Ledger(store, ManualClock(), LAYERS), ANN) for store in stores]
    for n in range(5):
        await asyncio.gather(*(side.add(f"Rule {n} of {place}.") for place, side in enumerate(sides)))
    assert len(await texts(sides[0])) == 10
    for store in stores:
        await store.close()


async def test_bad_instructions_are_refused(mine):
    added = await mine.add("é" * 4_000)
    for bad in ("", " ", 5, None):
        with pytest.raises(ValidationError):
            await mine.add(bad)
    with pytest.raises(TooLarge):
        await mine.add("x" * 4_001)
    with pytest.raises(TooLarge):
        await mine.update(added.id, text="x" * 4_001)
    for wrong in ({}, {"on": 1}, {"text": 5}):
        with pytest.raises(ValidationError):
            await mine.update(added.id, **wrong)
    with pytest.raises(NotFound):
        await mine.update("other", on=True)
    for ids in ([], "abc", [added.id, added.id], ["other"], [5]):
        with pytest.raises(ValidationError):
            await mine.reorder(ids)
    assert await mine.list() == [added]


async def test_deleting_spares_another_instruction_that_took_the_place_meanwhile(open_memory, store):
    memory = await open_memory(store)
    mine = memory.user("ann").customizations
    await mine.add("Be brief.", id="x")

    async def another_process():
        other = Customizations(Ledger(store, memory._flow.ledger.clock, LAYERS), Scope("default", "ann"))
        await other.delete("x")
        await other.add("Be polite.", id="y")

    store.before(lambda changes: bool(changes.put or changes.drop), another_process)
    with pytest.raises(NotFound):
        await mine.delete("x")
    assert [each.id for each in await mine.list()] == ["y"]
    await mine.delete("y")
    assert await mine.list() == []
    assert "polite" not in str(await memory.user("ann").export())
