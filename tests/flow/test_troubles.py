"""Whatever an endpoint does, a writer waits for one commit: only jobs wait for models."""

from __future__ import annotations

import asyncio

from recollect.records import system_clock
from recollect.stores import open_store
from recollect.testing.fakes import CountingStore, GatedEmbedder, ScriptedModel
from recollect.testing.troubles import run


async def test_a_write_is_one_commit_and_asks_no_model(open_memory):
    """The model and the embedder never answer, and the worker waits for both."""
    model = ScriptedModel(learned=lambda ask: asyncio.sleep(3600, ""))
    embedder = GatedEmbedder()
    store = CountingStore(await open_store("memory://"))
    memory = await open_memory(store, llm=model, embedder=embedder, llm_batch_s=0.001, worker=True, clock=system_clock)
    await memory.user("ann").session("monday").add_interaction("I live in Oslo.", "Noted.")
    async with asyncio.timeout(20):
        await embedder.entered.wait()
    before, asked = store.calls["commit"], len(model.asked)
    for number in range(20):
        store.reset()
        await memory.user("ann").session("monday").add_message("user", f"Number {number}: I row on Sundays.")
        assert store.calls["commit"] == 1 and not store.calls["get"] and not store.calls["list"]
    assert before and len(model.asked) == asked
    embedder.open.set()


async def test_endpoint_failures_lose_nothing_that_was_said():
    outcomes = {each.name: each for each in await run(["slow", "500", "embedder garbage"], writes=40)}
    assert {name: each.lost for name, each in outcomes.items()} == dict.fromkeys(outcomes, 0)
    assert all(outcomes[name].asked for name in ("slow", "500", "embedder garbage"))
