"""`/api/chat`: an agent that remembers, with a model behind it and without one."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager

import httpx
import pytest
from server_stage import client_of, listening, opened

from recollect.errors import Conflict, NotFound, ValidationError
from recollect.server import bodies
from recollect.server import chat as chat_routes
from recollect.server.admission import Admission
from recollect.server.agents import Agent, read_agents
from recollect.server.executors import Executors
from recollect.settings import Settings
from recollect.testing.fakes import ScriptedModel, learned

TURN = {"chat_id": "monday", "user_id": "ann", "message": "My cat is called Admiral."}
QUESTION = TURN | {"message": "What is my cat called?"}


def events(text: str) -> list[tuple[str, dict]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def told(client, chat="monday"):
    page = (await client.get(f"/api/users/ann/sessions/{chat}/messages")).json()
    return [(message["role"], message["content"]) for message in page["messages"]]


# ── Without a model ──────────────────────────────────────────────────────────────────────────────


async def test_what_was_told_on_monday_is_answered_on_friday(client):
    await client.post("/api/chat", json=TURN)
    answer = (await client.post("/api/chat", json=QUESTION | {"chat_id": "friday"})).json()
    assert "My cat is called Admiral." in answer["reply"]
    assert set(answer) == {"chat_id", "reply", "message_ids", "context"}
    assert set(answer["context"]) == {"sections", "tokens", "sources"}
    assert await told(client, "friday") == [("user", QUESTION["message"]), ("assistant", answer["reply"])]


async def test_the_answer_names_the_messages_that_were_stored(client):
    answer = (await client.post("/api/chat", json=TURN)).json()
    stored = (await client.get("/api/users/ann/sessions/monday/messages")).json()["messages"]
    assert answer["message_ids"] == [message["id"] for message in stored]


async def test_a_question_does_not_find_itself(client):
    both = TURN | {"message": "My dog is called Rex. What is my fish called?"}
    answer = (await client.post("/api/chat", json=both)).json()
    assert "Rex" not in answer["reply"]


async def test_a_streamed_answer_comes_in_pieces_and_ends_with_all_of_it(client):
    await client.post("/api/chat", json=TURN)
    answer = await client.post("/api/chat", json=QUESTION | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *pieces, (last, done) = events(answer.text)
    assert {name for name, _ in pieces} == {"token"} and last == "done"
    assert "".join(data["text"] for _, data in pieces) == done["reply"]
    assert (await told(client))[-1] == ("assistant", done["reply"])


async def test_a_turn_sent_twice_under_one_key_is_one_turn(client):
    key = {"Idempotency-Key": "turn-1"}
    first = (await client.post("/api/chat", json=TURN, headers=key)).json()
    again = (await client.post("/api/chat", json=TURN, headers=key)).json()
    streamed = events((await client.post("/api/chat", json=TURN | {"stream": True}, headers=key)).text)
    assert (first["reply"], first["message_ids"]) == (again["reply"], again["message_ids"])
    assert streamed[-1][1]["message_ids"] == first["message_ids"]
    assert len(await told(client)) == 2
    other = await client.post("/api/chat", json=QUESTION, headers=key)
    assert other.status_code == 409 and len(await told(client)) == 2


async def test_the_same_turn_at_the_same_time_is_stored_once(client):
    key = {"Idempotency-Key": "turn-1"}
    answers = await asyncio.gather(*(client.post("/api/chat", json=TURN, headers=key) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({json.dumps(answer.json()["message_ids"]) for answer in answers}) == 1
    assert len(await told(client)) == 2


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"message": ""}, 422, "message"), ({"message": None}, 422, "message"),
        ({"message": "x" * 70_000}, 413, "message"),
        ({"user_id": {"$ne": ""}}, 422, "user_id"), ({"chat_id": ""}, 422, "chat_id"),
        ({"agent": "nobody"}, 404, "agent"),
        ({"agent": 1}, 422, "agent"), ({"stream": "yes"}, 422, "stream"), ({"org": "acme"}, 422, "org"),
        ({"chat_id": ["a"]}, 422, "chat_id"),
    ],
)  # fmt: skip
async def test_an_invalid_turn_stores_nothing(client, change, status, field):
    answer = await client.post("/api/chat", json=TURN | change)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert (await client.get("/api/users")).json()["users"] == []


# ── With a model ─────────────────────────────────────────────────────────────────────────────────


def piece(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


END = b"data: [DONE]\n\n"
HELLO = piece("Hel") + piece("lo!") + b'data: {"choices": []}\n\n' + END


@asynccontextmanager
async def endpoint(answer: bytes, status: str = "200 OK", hang: bool = False):
    """A model on a local port. Yields its URL and what it was asked."""
    asked: list[tuple[bytes, dict]] = []
    writers = []

    async def speak(reader, writer):
        writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        asked.append((head, json.loads(await reader.readexactly(length))))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".encode())
        writer.write(answer)
        await writer.drain()
        if not hang:
            writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked
    finally:
        server.close()
        for writer in writers:
            writer.close()


@asynccontextmanager
async def talking(url, tmp_path, clock, **more):
    """A client of a server with an agent that uses the model at this URL."""
    extra = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    text = f'[agents.support]\nurl = "{url}"\nmodel = "tiny"\nprompt = "Be kind."\nmax_tokens = 50\n{extra}'
    (tmp_path / "recollect.toml").write_text(text)
    environ = {"OPENAI_API_KEY": "sk-test"}
    async with opened(clock=clock, folder=tmp_path, environ=environ) as service, client_of(service) as client:
        yield client


ASKED = QUESTION | {"agent": "support"}


async def test_a_model_is_given_the_prompt_the_memory_and_the_question(tmp_path, clock):
    async with endpoint(HELLO) as (url, asked), talking(url, tmp_path, clock) as client:
        await client.post("/api/chat", json=TURN)
        await client.put("/api/users/ann/facts/city", json={"value": "Lisbon"})
        await client.post("/api/users/ann/agents/support/customizations", json={"text": "Answer in rhyme."})
        answer = (await client.post("/api/chat", json=ASKED)).json()
    head, body = asked[0]
    assert answer["reply"] == "Hello!"
    assert b"authorization: Bearer sk-test" in head.replace(b"Authorization", b"authorization")
    assert (body["model"], body["max_tokens"], body["stream"]) == ("tiny", 50, True)
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert body["messages"][-1] == {"role": "user", "content": QUESTION["message"]}
    given = json.dumps(body["messages"], ensure_ascii=False)
    assert all(text in given for text in ("Lisbon", "Answer in rhyme.", "My cat is called Admiral."))


async def test_a_change_of_instructions_applies_from_the_next_turn(tmp_path, clock):
    async with endpoint(HELLO) as (url, asked), talking(url, tmp_path, clock) as client:
        await client.post("/api/chat", json=ASKED)
        await client.post("/api/users/ann/agents/support/customizations", json={"text": "Answer in rhyme."})
        await client.post("/api/chat", json=ASKED | {"message": "And my dog?"})
    said = [json.dumps(body["messages"]) for _, body in asked]
    assert ["rhyme" in each for each in said] == [False, True]


async def test_a_models_answer_is_streamed_as_it_comes(tmp_path, clock):
    async with endpoint(HELLO) as (url, _), talking(url, tmp_path, clock) as client:
        answer = await client.post("/api/chat", json=ASKED | {"stream": True})
        kept = await told(client)
    found = events(answer.text)
    assert [data["text"] for name, data in found if name == "token"] == ["Hel", "lo!"]
    assert found[-1][0] == "done" and kept[-1] == ("assistant", "Hello!")


async def test_line_ends_of_other_kinds_do_not_end_the_line_of_an_event(tmp_path, clock):
    text = "one\x85two\u2028three\u2029four"
    async with endpoint(piece(text) + END) as (url, _), talking(url, tmp_path, clock) as client:
        answer = await client.post("/api/chat", json=ASKED | {"stream": True})
    lines = answer.text.splitlines()  # as some clients read events; the pattern of the console's script stops there too
    assert lines == answer.text.split("\n")[:-1]
    assert [data.get("text", data.get("reply")) for _, data in events(answer.text)] == [text, text]


BAD_MODELS = {
    "an error": (b"", "500 Internal Server Error"),
    "too many requests": (b"", "429 Too Many Requests"),
    "a wish for patience": (b"", "429 Too Many Requests\r\nRetry-After: 60"),
    "a redirect": (b"", "307 Temporary Redirect"),
    "nothing": (END, "200 OK"),
    "only whitespace": (piece("  \n") + END, "200 OK"),
    "half an answer": (piece("Your train leaves at"), "200 OK"),
    "HTML": (b"<html>busy</html>", "200 OK"),
    "JSON of another kind": (b'data: {"choices": [{"text": 1}]}\n\n', "200 OK"),
    "half of JSON": (b'data: {"choices": [{"delta', "200 OK"),
    "ten megabytes": (piece("x" * 100_000) * 100, "200 OK"),
    "a line without an end": (b"data: " + b"x" * 3_000_000, "200 OK"),
    "an endless depth": (b"data: " + b"[" * 100_000 + b"\n\n", "200 OK"),
}


@pytest.mark.parametrize("kind", BAD_MODELS)
async def test_a_failing_model_loses_nothing_the_user_said(tmp_path, clock, kind):
    answer, status = BAD_MODELS[kind]
    async with endpoint(answer, status) as (url, _), talking(url, tmp_path, clock) as client:
        plain = await client.post("/api/chat", json=ASKED)
        streamed = events((await client.post("/api/chat", json=ASKED | {"stream": True})).text)
        kept = await told(client)
    assert (plain.status_code, plain.json()["code"]) == (502, "ModelError")
    assert streamed[-1][0] == "error" and streamed[-1][1]["code"] == "ModelError"
    assert kept == [("user", QUESTION["message"])] * 2
    assert "sk-test" not in plain.text and "xxx" not in plain.text and "busy" not in plain.text


async def test_an_answer_whose_last_piece_says_why_it_ended_is_whole(tmp_path, clock):
    last = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    async with endpoint(piece("At nine.") + last) as (url, _), talking(url, tmp_path, clock) as client:
        assert (await client.post("/api/chat", json=ASKED)).json()["reply"] == "At nine."


async def test_a_model_that_hangs_is_given_up(tmp_path, clock):
    async with endpoint(piece("Hel"), hang=True) as (url, _), talking(url, tmp_path, clock, timeout_s=0.2) as client:
        answer = await client.post("/api/chat", json=ASKED)
        assert (answer.status_code, len(await told(client))) == (502, 1)


async def test_a_client_that_leaves_mid_answer_also_stops_the_model(tmp_path, clock):
    async with endpoint(piece("Hel"), hang=True) as (url, _):
        (tmp_path / "recollect.toml").write_text(f'[agents.support]\nurl = "{url}"\nmodel = "tiny"\n')
        async with opened(clock=clock, folder=tmp_path) as service, listening(service) as address:
            async with (
                httpx.AsyncClient(base_url=address) as client,
                client.stream("POST", "/api/chat", json=ASKED | {"stream": True}) as answer,
            ):
                assert (await anext(answer.aiter_lines())) == "event: token"
            async with httpx.AsyncClient(base_url=address) as client:
                assert await told(client) == [("user", QUESTION["message"])]
            pool = service.executors._endpoints["support"]._wire._client._transport._pool
            async with asyncio.timeout(5):
                while pool.connections:
                    await asyncio.sleep(0.01)


async def test_a_client_that_leaves_before_a_whole_answer_finds_it_stored_and_holds_nothing_up(tmp_path, clock):
    async with endpoint(HELLO, hang=True) as (url, asked):
        (tmp_path / "recollect.toml").write_text(f'[agents.support]\nurl = "{url}"\nmodel = "tiny"\ntimeout_s = 5\n')
        async with opened(clock=clock, folder=tmp_path) as service, listening(service) as address:
            service.admission = Admission(turns=1)
            for number in range(3):
                async with httpx.AsyncClient(base_url=address) as client:
                    turn = asyncio.create_task(client.post("/api/chat", json=ASKED | {"chat_id": f"chat{number}"}))
                    async with asyncio.timeout(10):
                        while len(asked) == number:
                            await asyncio.sleep(0.01)
                    turn.cancel()
                    await asyncio.wait([turn])
            async with httpx.AsyncClient(base_url=address) as client, asyncio.timeout(10):
                for number in range(3):
                    while len(await told(client, f"chat{number}")) < 2:
                        await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", ["url", "model", "llm", "llm_url", "base_url", "endpoint", "key"])
@pytest.mark.parametrize("where", ["body", "query", "header"])
async def test_no_caller_can_choose_the_address_of_a_model(tmp_path, clock, name, where):
    """A tenant's URL could point at the machine itself or at the cloud's metadata: there is no place to give one."""
    async with (
        endpoint(HELLO) as (theirs, lured),
        endpoint(HELLO) as (ours, asked),
        talking(ours, tmp_path, clock) as client,
    ):
        given = {"json": ASKED | ({name: theirs} if where == "body" else {})}
        given |= {"params": {name: theirs}} if where == "query" else {"headers": {f"x-{name}": theirs}}
        answer = await client.post("/api/chat", **given)
    assert lured == [] and (answer.status_code, len(asked)) == ((200, 1) if where == "header" else (422, 0))


async def test_a_redirect_of_a_model_is_not_followed(tmp_path, clock):
    async with endpoint(HELLO) as (inside, lured):
        moved = f"307 Temporary Redirect\r\nLocation: {inside}/chat/completions"
        async with endpoint(b"", moved) as (url, _), talking(url, tmp_path, clock) as client:
            assert (await client.post("/api/chat", json=ASKED)).status_code == 502
    assert lured == []


async def test_the_cost_of_the_model_is_in_the_metrics(clock):
    model = ScriptedModel(learned=learned())
    async with opened(clock=clock, llm=model) as service, client_of(service) as client:
        await client.post("/api/chat", json=TURN)
        await service.memory.work()
        clock.advance(minutes=1)
        await service.memory.work()
        figures = (await client.get("/metrics")).text
    assert 'recollect_model_total{what="asked"} 1' in figures
    assert re.search(r'recollect_model_total\{what="tokens_in"\} \d{3,}', figures)


async def test_an_unreachable_model_is_reported_and_a_retry_continues_the_turn(tmp_path, clock):
    key = {"Idempotency-Key": "turn-1"}
    async with talking("http://127.0.0.1:1/v1", tmp_path, clock) as client:
        assert (await client.post("/api/chat", json=ASKED, headers=key)).status_code == 502
        assert (await client.post("/api/chat", json=ASKED, headers=key)).status_code == 502
        assert len(await told(client)) == 1


# ── Agents and executors ─────────────────────────────────────────────────────────────────────────


def test_agents_are_read_from_the_file_and_settings_ignore_them(tmp_path):
    (tmp_path / "recollect.toml").write_text('language = "de"\n[agents.support]\nprompt = "Be kind."\n')
    assert Settings.read({}, tmp_path).language == "de"
    assert read_agents({}, {}) == {"default": Agent("default")}
    assert "sk-1" not in repr(read_agents({"a": {"url": "http://x", "model": "m"}}, {"OPENAI_API_KEY": "sk-1"}))


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (1, "agents"), ({"a": 1}, "agents.a"), ({"a": {"colour": "red"}}, "agents.a"), ({"": {}}, "agents"),
        ({"a": {"prompt": 1}}, "agents.a.prompt"), ({"a": {"max_tokens": 0}}, "agents.a.max_tokens"),
        ({"a": {"max_tokens": True}}, "agents.a.max_tokens"),
        ({"a": {"url": "file:///x", "model": "m"}}, "agents.a.url"),
        ({"a": {"url": "http://x"}}, "agents.a.url"), ({"a": {"prompt": " "}}, "agents.a.prompt"),
        ({"a": {"key": "sk-1"}}, "agents.a"),
    ],
)  # fmt: skip
def test_an_invalid_agent_is_refused_at_the_start(table, field):
    with pytest.raises(ValidationError) as refused:
        read_agents(table, {})
    assert refused.value.field == field


def test_an_executor_is_kept_per_user_and_agent_and_dropped_after_a_while():
    now = [0.0]
    held = Executors(read_agents({"support": {}}, {}), life_s=10, timer=lambda: now[0])
    mine = held.of("acme", "ann", "")
    assert held.of("acme", "ann", "default") is mine
    assert held.of("acme", "ann", "support") is not mine and held.of("other", "ann", "") is not mine
    now[0] = 9
    assert held.of("acme", "ann", "") is mine and held.alive == 3
    now[0] = 15
    assert held.alive == 1
    now[0] = 30
    assert held.of("acme", "ann", "") is not mine
    with pytest.raises(NotFound):
        held.of("acme", "ann", "nobody")


def test_of_too_many_executors_the_least_recently_used_is_dropped():
    held = Executors(read_agents({}, {}), most=2)
    first, second = held.of("o", "1", ""), held.of("o", "2", "")
    assert held.of("o", "1", "") is first
    held.of("o", "3", "")
    assert held.of("o", "1", "") is first and held.alive == 2
    assert held.of("o", "2", "") is not second


async def test_a_reply_is_forgotten_with_what_it_quotes():
    async with opened() as service, client_of(service) as client:
        for chat, text in (("m", "I live in Quixeramobim."), ("n", "Where do I live?")):
            body = {"chat_id": chat, "user_id": "ann", "message": text}
            answer = (await client.post("/api/chat", json=body)).json()
            await service.memory.work()
        assert "Quixeramobim" in answer["reply"]
        said = (await client.get("/api/users/ann/sessions/m/messages")).json()["messages"][0]["id"]
        await client.delete(f"/api/users/ann/memories/{said}")
        assert "Quixeramobim" not in (await client.get("/api/users/ann/export")).text


async def test_a_turn_with_masked_words_can_be_sent_again():
    async with opened(settings={"masking": "personal"}) as service, client_of(service) as client:
        body = {"chat_id": "m", "user_id": "ann", "message": "My mail is ann@example.com, keep it."}
        sent = [await client.post("/api/chat", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        assert [each.status_code for each in sent] == [200, 200]


async def test_a_reply_to_a_message_forgotten_meanwhile_is_not_stored():
    async with opened() as service:
        body = bodies.ChatTurn(chat_id="m", user_id="ann", message="Hello")
        turn = chat_routes.begun(service, "default", body, None)
        prepared = await turn.begin()
        await service.memory.user("ann").erase()
        with pytest.raises(Conflict):
            await turn.end(prepared, "Hello again")
        assert await service.memory.users() == []
