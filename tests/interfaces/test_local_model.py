"""A real language model on this machine, reached like any endpoint. The quality of its answers is never judged."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

import pytest
from server_stage import client_of, opened

from recollect import Memory
from recollect.errors import ModelError
from recollect.models import Ask
from recollect.models.decoding import decoded
from recollect.models.openai import EndpointModel
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.servers.llama import LlamaServer

pytestmark = pytest.mark.xdist_group("llama")

HELLO = Ask([{"role": "user", "content": "Say hello."}], tokens_max=12)
SHAPE = {
    "title": "pick",
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green"]},
        "number": {"type": "integer", "minimum": 1, "maximum": 3},
        "likes": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["colour", "number", "likes"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def llama():
    with LlamaServer() as server:
        yield server


@asynccontextmanager
async def modelled(llama, **more):
    model = EndpointModel("smollm2", url=llama.url, **{"answer_s": 60.0} | more)
    try:
        yield model
    finally:
        await model.disconnect()


async def test_it_answers_in_the_requested_schema_and_reports_its_cost(llama):
    async with modelled(llama) as model:
        answer = await model.answer(replace(HELLO, schema=SHAPE, tokens_max=400))
    assert set(decoded(answer.text, SHAPE)) == {"colour", "number", "likes"}
    assert answer.tokens_in > 0 and 0 < answer.tokens_out <= 400


async def test_a_cut_off_answer_is_an_error(llama):
    async with modelled(llama) as model:
        with pytest.raises(ModelError, match="cut off"):
            await model.answer(replace(HELLO, schema=SHAPE, tokens_max=3))


async def test_its_answer_is_streamed(llama):
    async with modelled(llama) as model:
        pieces = [piece async for piece in model.spoken(HELLO)]
    assert len(pieces) > 1 and "".join(pieces).strip()


async def test_a_listener_that_stops_releases_the_connection(llama):
    async with modelled(llama) as model:
        async with aclosing(model.spoken(replace(HELLO, tokens_max=1_000))) as pieces:
            await anext(pieces)
        begun = time.monotonic()
        assert [piece async for piece in model.spoken(HELLO)]
        assert time.monotonic() - begun < 20  # a thousand tokens would take longer


async def test_a_cancelled_question_is_aborted(llama):
    async with modelled(llama) as model:
        asking = asyncio.create_task(model.answer(replace(HELLO, tokens_max=1_000)))
        await asyncio.sleep(0.05)  # it is under way, and even a small model has not finished
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [piece async for piece in model.spoken(HELLO)]


async def test_a_frozen_model_is_given_up_and_used_again_when_it_is_back(llama):
    async with modelled(llama, answer_s=0.5) as model:
        llama.freeze()
        try:
            with pytest.raises(ModelError, match="did not answer in time"):
                await model.answer(HELLO)
        finally:
            llama.thaw()
    async with modelled(llama) as model:
        assert [piece async for piece in model.spoken(HELLO)]


async def test_a_turn_of_the_server_is_answered_and_streamed_by_it(llama, tmp_path, clock):
    text = f'[agents.local]\nurl = "{llama.url}"\nmodel = "smollm2"\nmax_tokens = 16\ncontext_tokens = 300\n'
    (tmp_path / "recollect.toml").write_text(text)
    turn = {"chat_id": "monday", "user_id": "ann", "agent": "local", "message": "Say hello.", "stream": True}
    async with opened(clock=clock, folder=tmp_path) as service, client_of(service, timeout=90) as client:
        answer = await client.post("/api/chat", json=turn)
        page = (await client.get("/api/users/ann/sessions/monday/messages")).json()
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    pieces = [json.loads(data.removeprefix("data: "))["text"] for name, data in blocks if name == "event: token"]
    assert len(pieces) > 1 and page["messages"][-1]["content"] == "".join(pieces)


async def test_it_rereads_conversations_and_learns_nothing_that_was_not_said(llama, tmp_path, clock):
    said = ["I collect antique barometers.", "My sister Ana lives in Bergen."]

    async with modelled(llama) as model:

        async def small(ask):
            """The same question for a very small model: few instructions and few findings."""
            shape = json.loads(
                json.dumps(ask.schema).replace('{"type": "string"}', '{"type": "string", "maxLength": 30}')
            )
            for listed in shape["properties"].values():
                listed["maxItems"] = 1
            system = {"role": "system", "content": "Report one thing that the user says, with a quote, in JSON."}
            for _ in range(2):
                with suppress(ModelError):  # it may go on and on until it is cut off, and not the next time
                    return await model.answer(Ask([system, ask.messages[1]], shape, 250))
            return await model.answer(Ask([system, ask.messages[1]], shape, 250))

        given = {"clock": clock, "worker": False, "embedder": HashingEmbedder(), "learn": False}
        async with Memory.open(f"sqlite:///{tmp_path}/a.db", **given) as memory:
            for text in said:
                await memory.user("ann").session("monday").add_interaction(text, "I see.")
        async with Memory.open(f"sqlite:///{tmp_path}/a.db", **given | {"llm": small}) as memory:
            done = await memory.user("ann").reprocess(by="model", apply=True)
            figures = memory.describe()["model"]
            facts = await memory.user("ann").facts.list()
    assert (done.messages, done.by, figures["asked"], figures["failed"]) == (4, "small/learn-2", 1, 0)
    assert figures["tokens_in"] > 50 and figures["tokens_out"] > 10
    words = " ".join(said).lower()
    assert all(word.strip(".,").lower() in words for fact in facts for word in fact.value.split())
