"""The server under strain: several stores, large pages, slow readers, floods, and a stop in the middle of it."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
import sqlite3
import threading
import time
from collections import Counter

import httpx
import pytest
from server_stage import client_of, listening, opened, process, until

from recollect.errors import Conflict
from recollect.records import system_clock
from recollect.server import admission, answers, gate, limits
from recollect.server.admission import Admission
from recollect.server.connections import PatientProtocol
from recollect.server.service import FAILED_BURST
from recollect.testing.fakes import FailingEmbedder, HashingEmbedder
from recollect.testing.proxy import Proxy
from recollect.testing.serving import STOP_S

ANN = "/api/users/ann"


@pytest.fixture
async def service():
    async with opened() as opened_service:
        yield opened_service


@pytest.fixture
async def client(service):
    async with client_of(service) as one:
        yield one


# ── The stores underneath ────────────────────────────────────────────────────────────────────────


async def test_layers_are_stored_where_the_settings_say_and_health_lists_each_store(tmp_path):
    kept = f"sqlite:///{tmp_path}/working.db"
    async with opened(settings={"layers": f"working={kept}"}) as service, client_of(service) as client:
        await client.put(f"{ANN}/sessions/s/working", json={"step": "found in its own file"})
        health, ready = [(await client.get(path)).json() for path in ("/health", "/ready")]
    assert {name: told["store"] for name, told in health["stores"].items()} == {
        "the rest": "memory",
        "working": "sqlite",
    }
    assert ready["stores"] == {"the rest": "answers", "working": "answers"}
    with sqlite3.connect(tmp_path / "working.db") as file:
        assert "found in its own file" in file.execute("select payload from records").fetchone()[0]


async def test_a_store_replaced_by_the_in_memory_fallback_is_named_in_health(tmp_path):
    missing = f"sqlite:///{tmp_path}/no-such-folder/x.db"
    async with opened(missing, settings={"fallback": "memory"}) as service, client_of(service) as client:
        told = (await client.get("/health")).json()
        assert (
            told["status"] == "degraded" and "sqlite:// could not be opened" in told["stores"]["everything"]["fallback"]
        )
        assert str(tmp_path) not in json.dumps(told) and (await client.get("/ready")).status_code == 200


async def test_a_store_that_does_not_answer_is_named_and_the_server_is_not_ready(tmp_path):
    layers = f"working=sqlite:///{tmp_path}/working.db"
    async with opened(settings={"layers": layers}) as service, client_of(service) as client:
        await service.stores["working"].close()
        answer = await client.get("/ready")
    assert answer.status_code == 503 and answer.json()["stores"] == {"the rest": "answers", "working": "Unavailable"}


async def test_a_probe_is_answered_while_the_driver_is_still_waiting_for_a_silent_server(caplog, monkeypatch):
    servers = pytest.importorskip("recollect.testing.servers.postgres", reason="no PostgreSQL driver here")
    monkeypatch.setattr(gate, "KEYS_WAIT_S", 1.0)
    server = servers.shared_server()
    async with Proxy(server.port) as way:
        url = server.url(schema=f"probed_{secrets.token_hex(4)}").replace(str(server.port), str(way.port))
        async with opened(url) as service, client_of(service, timeout=60) as client:
            _, token = await service.keys.create(org="default", scope="admin")
            client.headers["authorization"] = f"Bearer {token}"
            assert [(await client.get(path)).status_code for path in ("/ready", "/metrics")] == [200, 200]
            way.stall()
            ready, figures = await asyncio.gather(client.get("/ready"), client.get("/metrics"))
            assert ready.status_code == 503 and ready.json()["stores"] == {"everything": "too slow"}
            assert figures.status_code == 200 and "recollect_store_up 0" in figures.text
            assert "cancellation" not in caplog.text, "the driver has not given up yet"
            way.resume()
            assert (await client.get("/ready")).status_code == 200


async def test_nothing_is_acknowledged_once_the_file_is_removed_under_the_server(tmp_path):
    memory = {"content": "Tea."}
    async with opened(f"sqlite:///{tmp_path}/kept.db") as service, client_of(service) as client:
        assert (await client.post(f"{ANN}/memories", json=memory)).status_code == 201
        (tmp_path / "kept.db").rename(tmp_path / "elsewhere.db")
        away = [await client.post(f"{ANN}/memories", json=memory), await client.get("/ready")]
        assert [answer.status_code for answer in away] == [503, 503] and "removed" in away[0].json()["detail"]
        (tmp_path / "elsewhere.db").rename(tmp_path / "kept.db")
        assert (await client.post(f"{ANN}/memories", json=memory)).status_code == 201


async def test_a_worker_that_cannot_look_for_work_is_reported(service, client):
    service.memory._running.worker.trouble = "Unavailable: the store is away"
    assert (await client.get("/health")).json()["worker"] == "elsewhere"
    async with opened(settings={"worker": True}) as with_worker, client_of(with_worker) as other:
        with_worker.memory._running.worker.trouble = "Unavailable: the store is away"
        told = (await other.get("/health")).json()
    assert told["status"] == "degraded" and "cannot look for work" in told["worker"]


async def test_a_failing_embedder_or_model_is_reported_and_the_server_keeps_serving(clock):
    async def failing(_):
        raise RuntimeError("no such luck")

    async with opened(clock=clock, embedder=FailingEmbedder(), llm=failing) as service, client_of(service) as client:
        before = (await client.get("/ready")).json()
        await client.post(f"{ANN}/sessions/s/messages", json={"role": "user", "content": "I drink tea."})
        await client.post(f"{ANN}/memories/search", json={"query": "tea"})
        clock.advance(minutes=5)
        await service.memory.work()
        health, ready = [await client.get(path) for path in ("/health", "/ready")]
    assert before["states"] == {"embedder": "not asked yet", "model": "not asked yet"}
    assert health.json()["status"] == "degraded" and health.json()["enrichment"] == "rules, then failing"
    assert ready.status_code == 200 and health.json()["states"] == ready.json()["states"]
    assert ready.json()["states"]["embedder"].startswith("fails (")
    assert "luck" not in health.text


# ── Pages and exports ────────────────────────────────────────────────────────────────────────────


async def test_a_page_ends_when_it_gets_too_large_and_the_next_continues_without_a_gap(client):
    for start in range(0, 60, 12):
        drafts = [{"role": "user", "content": f"{start + n} " + "x" * 60_000} for n in range(12)]
        (await client.post(f"{ANN}/sessions/s/messages", json={"messages": drafts})).raise_for_status()
    seen, after, pages = [], None, 0
    while True:
        query = {"limit": 1000} | ({"after": after} if after else {})
        answer = await client.get(f"{ANN}/sessions/s/messages", params=query)
        assert len(answer.content) < answers.PAGE_BYTES + answers.STEP_ITEMS * 70_000
        seen += [int(each["content"].split()[0]) for each in answer.json()["messages"]]
        after, pages = answer.json()["after"], pages + 1
        if after is None:
            break
    assert seen == list(range(60)) and pages == 2


async def test_a_history_that_is_too_large_leaves_the_oldest_out_and_says_how_many(client):
    await client.post(f"{ANN}/memories", json={"content": "0 " + "x" * 60_000, "id": "long"})
    for n in range(1, 30):
        await client.patch(f"{ANN}/memories/long", json={"content": f"{n} " + "x" * 60_000})
    told = (await client.get(f"{ANN}/memories/long/history")).json()
    kept = [int(each["content"].split()[0]) for each in told["history"]]
    assert kept == list(range(told["left_out"], 30)) and 0 < told["left_out"] < 30


async def test_an_export_is_sent_as_it_is_read_and_is_complete(service, client):
    for n in range(3):
        await service.memory.user("ann").add_memories([f"Memory {n * 90 + i} of many." for i in range(90)])
    pieces = []
    async with client.stream("GET", f"{ANN}/export") as answer:
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
    lines = [json.loads(line) for line in b"".join(pieces).splitlines()]
    again = await service.memory.user("ann").export()
    assert [line.get("id") for line in lines] == [line.get("id") for line in again] and len(lines) == 271


async def test_users_and_failures_come_page_by_page(service, client):
    for n in range(25):
        await service.memory.user(f"user-{n:02}").add_memory("Something.")
    await service.memory.user("user-03").erase()
    await service.memory.user("zoe", org="other").add_memory("Something.")
    seen, after = [], None
    while True:
        query = {"limit": 10} | ({"after": after} if after else {})
        told = (await client.get("/api/users", params=query)).json()
        seen, after = seen + told["users"], told["after"]
        if after is None:
            break
    assert seen == [f"user-{n:02}" for n in range(25) if n != 3]


async def test_failures_come_page_by_page_even_within_one_user(clock):
    failing = {"embedder": FailingEmbedder(), "settings": {"job_attempts_max": 1}}
    async with opened(clock=clock, **failing) as service, client_of(service) as client:
        for user in ("ann", "bob", "cyd"):
            for n in range(4):
                await service.memory.user(user).session("s").add_message("user", f"Hello {n}.")
        await service.memory.work()
        every = [failure.id for failure in await service.memory.failures()]
        seen, after = [], None
        while True:
            query = {"limit": 3} | ({"after": after} if after else {})
            told = (await client.get("/api/failures", params=query)).json()
            assert len(told["failures"]) <= 3
            seen, after = seen + [each["id"] for each in told["failures"]], told["after"]
            if after is None:
                break
        assert len(every) >= 12 and sorted(seen) == sorted(every)
        last = await client.post(f"/api/failures/{seen[-1]}/retry")
        wrong = [await client.get("/api/failures", params={"after": cursor}) for cursor in ("x", "[1,2]", '["",1]')]
    assert last.status_code == 204 and {each.status_code for each in wrong} == {422}


# ── Conditional changes ──────────────────────────────────────────────────────────────────────────


async def test_an_instruction_is_changed_only_at_the_version_read(client):
    made = await client.post(f"{ANN}/customizations", json={"id": "tone", "text": "Be brief."})
    first = await client.patch(
        f"{ANN}/customizations/tone", json={"text": "Be kind."}, headers={"If-Match": made.headers["etag"]}
    )
    stale = await client.patch(
        f"{ANN}/customizations/tone", json={"text": "Be loud."}, headers={"If-Match": made.headers["etag"]}
    )
    assert (first.status_code, stale.status_code, stale.json()["field"]) == (200, 412, "version")
    (listed,) = (await client.get(f"{ANN}/customizations")).json()["customizations"]
    assert listed["text"] == "Be kind." and f'"{listed["version"]}"' == first.headers["etag"]


@pytest.mark.parametrize("forget", ["erase", "forget"])
async def test_a_reply_is_not_stored_once_what_it_answers_is_gone(service, forget):
    ann = service.memory.user("ann")
    said = await ann.session("s").add_message("user", "Hello")
    await (ann.erase() if forget == "erase" else ann.forget(said.id))
    with pytest.raises(Conflict) as refused:
        await ann.session("s").add_message("assistant", "Hello!", reply_to=said.id)
    assert refused.value.field == "reply_to" and (await ann.session("s").messages())[0] == []


@pytest.mark.parametrize("query", ["where=%ff", "limit=%C3%28", "%fe=1"])
async def test_broken_text_in_a_query_is_a_bad_request(client, query):
    answer = await client.get(f"{ANN}/memories?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, "query")
    assert answer.headers["content-type"] == "application/problem+json"


# ── Clients that do not read, and clients that ask too much ──────────────────────────────────────


class Impatient(PatientProtocol):
    write_s = 0.3


async def test_a_client_that_does_not_read_is_disconnected(service):
    ann = service.memory.user("ann")
    for start in range(0, 300, 12):
        await ann.add_memories([f"{start + n} " + "x" * 60_000 for n in range(12)])

    def stall(address: str) -> int:
        place = (httpx.URL(address).host, httpx.URL(address).port)
        with socket.create_connection(place, timeout=60) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131_072)
            lazy.sendall(f"GET {ANN}/export HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            read = len(lazy.recv(1))  # the answer has begun, however busy the machine is
            time.sleep(1.5)
            try:
                while piece := lazy.recv(1 << 20):
                    read += len(piece)
            except ConnectionResetError:
                pass
            return read

    async with listening(service, Impatient) as address:
        read = await asyncio.to_thread(stall, address)
        async with httpx.AsyncClient(base_url=address) as other:
            whole = (await other.get(f"{ANN}/export")).content
    assert len(whole) > 17_000_000 and read < len(whole) // 2


class SlowEmbedder(HashingEmbedder):
    """An embedder that waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()

    async def embed(self, texts):
        await self.may_go_on.wait()
        return await super().embed(texts)


async def test_too_many_requests_at_once_are_told_to_come_back_and_then_all_recovers(service, client):
    service.admission = Admission(turns=4, line=8)
    service.memory._running.recall._embedder = slow = SlowEmbedder()
    await service.memory.user("ann").add_memory("Tea.")
    asked = [asyncio.create_task(client.post(f"{ANN}/memories/search", json={"query": "tea"})) for _ in range(40)]
    async with asyncio.timeout(60):
        while sum(task.done() for task in asked) < 32:
            await asyncio.sleep(0.01)
    alive = await client.get("/health")
    refused = [task.result() for task in asked if task.done()]
    assert alive.status_code == 200 and len(refused) == 32
    assert {each.status_code for each in refused} == {503} and {each.headers["retry-after"] for each in refused} == {
        "1"
    }
    slow.may_go_on.set()
    assert Counter([(await task).status_code for task in asked]) == {503: 32, 200: 8}
    assert (await client.get(f"{ANN}/profile")).status_code == 200


async def test_one_key_that_asks_too_much_leaves_room_for_the_others(service):
    service.admission = Admission(turns=4, line=8)
    service.memory._running.recall._embedder = slow = SlowEmbedder()
    _, greedy = await service.keys.create(org="acme")
    _, modest = await service.keys.create(org="acme")
    await service.memory.user("ann", org="acme").add_memory("Tea.")
    async with listening(service) as address, httpx.AsyncClient(base_url=address, timeout=60) as client:

        def asking(token: str) -> asyncio.Task[httpx.Response]:
            headers = {"Authorization": f"Bearer {token}"}
            return asyncio.create_task(client.post(f"{ANN}/memories/search", json={"query": "tea"}, headers=headers))

        many = [asking(greedy) for _ in range(30)]
        async with asyncio.timeout(60):
            while sum(task.done() for task in many) < 22:
                await asyncio.sleep(0.05)
        refused = [task.result() for task in many if task.done()]
        few = [asking(modest) for _ in range(2)]
        await asyncio.sleep(0.3)
        waiting = [task for task in few if not task.done()]
        alive = (await client.get("/health")).status_code
        slow.may_go_on.set()
        answers = [(await task).status_code for task in (*many, *few)]
        figures = service.metrics.total("refused")
    assert 22 <= len(refused) <= 26 and {each.json()["code"] for each in refused} == {"Busy"}
    assert len(waiting) == 2 and alive == 200 and answers[-2:] == [200, 200]
    assert set(answers) == {200, 503} and 0 < figures <= len(refused)


async def test_imports_of_one_org_take_no_turn_and_end_when_their_client_leaves(service):
    lines = b"".join(b'{"role": "user", "content": "Cup %d of tea."}\n' % number for number in range(18_000))
    service.admission = Admission(turns=2)
    async with listening(service) as address, httpx.AsyncClient(base_url=address, timeout=60) as client:
        place = (httpx.URL(address).host, httpx.URL(address).port)
        senders = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection(*place)
            head = f"POST {ANN}/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/jsonl\r\n"
            writer.write(f"{head}Content-Length: {len(lines)}\r\n\r\n".encode() + lines)
            senders.append((reader, writer))
        async with asyncio.timeout(60):
            while not (await client.get(f"{ANN}/sessions")).json()["sessions"]:
                await asyncio.sleep(0.05)
        assert (await client.get("/api/users/bob/profile", headers={"X-Recollect-Org": "other"})).status_code == 200
        assert service.long._here == {"default": 4}
        for _, writer in senders:
            writer.close()
        await asyncio.to_thread(until, lambda: not service.long._here)
        (session,) = (await client.get(f"{ANN}/sessions")).json()["sessions"]
        assert 0 < session["messages"] < 18_000


@pytest.mark.parametrize("path", ["/health", "/health?", "/ready?verbose=1", "/%68ealth"])
async def test_health_checks_in_any_form_take_no_place_in_the_queue(service, path):
    service.admission = Admission(line=8)
    async with listening(service) as address, httpx.AsyncClient(base_url=address, timeout=60) as client:
        looks = [(await client.get(path)).status_code for _ in range(20)]
        answer = await client.get("/api/users")
    assert answer.status_code == 200 and 503 not in looks


async def test_a_connection_survives_requests_that_were_refused_unread(service):
    service.admission = Admission(turns=1, line=2)
    service.memory._running.recall._embedder = slow = SlowEmbedder()
    await service.memory.user("ann").add_memory("Tea.")
    body = b'{"query": "tea"}'
    head = f"POST {ANN}/memories/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with listening(service) as address:
        host, port = address.removeprefix("http://").split(":")
        lines = [await asyncio.open_connection(host, int(port)) for _ in range(3)]

        async def status(line: int) -> int:
            head = await asyncio.wait_for(lines[line][0].readuntil(b"\r\n\r\n"), 5)
            await lines[line][0].readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            return int(head[9:12])

        for _, writer in lines[:2]:
            writer.write(request)
            await asyncio.sleep(0.2)  # the first is worked on, the second waits
        refused = []
        for _ in range(3):
            lines[2][1].write(request)
            refused.append(await status(2))
        slow.may_go_on.set()
        served = [await status(line) for line in (0, 1)]
        lines[2][1].write(request)
        served.append(await status(2))
        for _, writer in lines:
            writer.close()
    assert refused == [503] * 3 and served == [200] * 3


class Talk:
    """One connection on which requests are written piece by piece."""

    @classmethod
    async def to(cls, address: str) -> Talk:
        talk = cls()
        host, port = address.removeprefix("http://").split(":")
        talk._reader, talk._writer = await asyncio.open_connection(host, int(port))
        return talk

    async def ask(self, *pieces: bytes) -> httpx.Response:
        for piece in pieces:
            self._writer.write(piece)
            await asyncio.sleep(0.05 if len(pieces) > 1 else 0)
        head = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 5)).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:-2])
        body = await self._reader.readexactly(int(headers["content-length"]))
        return httpx.Response(int(head[0].split()[1]), headers=headers, content=body)

    def close(self) -> None:
        self._writer.close()


def search_by(*tokens: str) -> tuple[bytes, bytes]:
    """A search request with these keys: its head and its body."""
    body = b'{"query": "tea"}'
    shown = "".join(f"Authorization: Bearer {token}\r\n" for token in tokens)
    head = f"POST {ANN}/memories/search HTTP/1.1\r\nHost: 127.0.0.1\r\n{shown}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), body


@pytest.mark.parametrize("is_split", [False, True], ids=["at once", "head first"])
async def test_a_key_over_its_rate_is_refused_unread_and_its_connection_stays_open(is_split):
    async with opened(settings={"requests_per_minute": 60}) as service, listening(service) as address:
        tokens = [(await service.keys.create(org="acme"))[1] for _ in range(2)]
        busy, quiet = [await Talk.to(address) for _ in range(2)]
        pieces = search_by(tokens[0]) if is_split else (b"".join(search_by(tokens[0])),)
        answers: list[httpx.Response] = []
        while [each.status_code for each in answers].count(429) < 3 and len(answers) < 60:
            answers.append(await busy.ask(*pieces))
        other = await quiet.ask(*search_by(tokens[1]))
        unread = service.metrics.total("refused")
        busy.close()
        quiet.close()
    served = [each.status_code for each in answers]
    # Each request counts once, whether it is counted on arrival or at the gate.
    assert served[:10] == [200] * 10 and served.count(429) == 3 and other.status_code == 200
    refusal = next(each for each in answers if each.status_code == 429)
    assert refusal.headers["retry-after"] == "1" and refusal.json()["code"] == "RateLimited"
    assert unread == served.count(429)


async def test_a_flood_with_one_wrong_key_is_refused_unread_but_a_request_with_two_keys_never_is(service):
    _, right = await service.keys.create(org="acme")
    wrong = f"rk_{'0' * 12}_{'x' * 43}"
    async with listening(service) as address:

        async def status(*tokens: str) -> int:
            talk = await Talk.to(address)
            answer = await talk.ask(b"".join(search_by(*tokens)))
            talk.close()
            return answer.status_code

        before = await status(right, right)
        answers = [await status(wrong) for _ in range(FAILED_BURST + 30)]
        two, served = await status(right, right), await status(right)
        unread = service.metrics.total("refused")
    assert (before, two, served) == (401, 429, 200)
    assert answers[: FAILED_BURST - 1] == [401] * (FAILED_BURST - 1) and answers.count(429) >= 10
    # The request with two keys was read and refused on its merits; so is a wrong key now and then.
    assert answers.count(429) / 2 <= unread < answers.count(429)


async def test_bodies_that_would_fill_the_memory_are_not_read(client, monkeypatch):
    monkeypatch.setattr(limits, "BODIES_BYTES", 100)
    refused = await client.post(f"{ANN}/memories", json={"content": "x" * 200})
    taken = await client.post(f"{ANN}/memories", json={"content": "short"})
    assert (refused.status_code, refused.headers["retry-after"], taken.status_code) == (503, "1", 201)


async def test_strangers_who_send_slowly_do_not_delay_callers_with_a_key(service):
    _, token = await service.keys.create(org="acme")
    form = "Host: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1048576\r\n\r\nk"
    async with listening(service) as address:
        host, port = address.removeprefix("http://").split(":")
        slow = []
        for path in ["/sign-in", "/users/ann/memories"] * (admission.PLACES_MAX // 2 + 4):
            slow.append(await asyncio.open_connection(host, int(port)))
            slow[-1][1].write(f"POST {path} HTTP/1.1\r\n{form}".encode())
            await slow[-1][1].drain()
        async with httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {token}"}) as client:
            kept = [(await client.post(f"{ANN}/memories", json={"content": f"Tea {n}."})).status_code for n in range(3)]
        for _, writer in slow:
            writer.close()
    assert kept == [201, 201, 201]


async def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_answered(service):
    head = "Host: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening(service) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for path in (f"{ANN}/memories", "/health"):
            writer.write(f"POST {path} HTTP/1.1\r\n{head}0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1
            writer.close()
            reader, writer = await asyncio.open_connection(host, int(port))
        writer.close()


# ── A stop in the middle of it ───────────────────────────────────────────────────────────────────


class Hanging:
    """An endpoint that accepts a turn and never answers."""

    def __enter__(self) -> Hanging:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def test_a_stop_with_a_hundred_requests_in_flight_loses_nothing_acknowledged(tmp_path):
    kept, answered = [], Counter()

    def write(address: str, n: int) -> None:
        with httpx.Client(base_url=address, timeout=60) as client:
            for turn in range(50):
                content = f"{n}-{turn}"
                try:
                    answer = client.post(
                        f"/api/users/u{n % 10}/sessions/s/messages", json={"role": "user", "content": content}
                    )
                except httpx.TransportError:
                    return
                answered[answer.status_code] += 1
                if answer.status_code == 201:
                    kept.append(content)

    with Hanging() as endpoint:
        (tmp_path / "recollect.toml").write_text(f'[agents.slow]\nurl = "{endpoint.url}"\nmodel = "m"\n')
        with process(tmp_path, "--url", f"sqlite:///{tmp_path}/kept.db") as (address, running):
            turn = {"chat_id": "c", "user_id": "hung", "agent": "slow", "message": "Hello"}
            hung: list[int] = []
            first = threading.Thread(
                target=lambda: hung.append(httpx.post(f"{address}/api/chat", json=turn, timeout=60).status_code)
            )
            first.start()
            time.sleep(0.5)
            asked = [threading.Thread(target=write, args=(address, n)) for n in range(100)]
            for thread in asked:
                thread.start()
            until(lambda: len(kept) > 50)
            running.send_signal(signal.SIGTERM)
            assert running.wait(STOP_S) == 0
            for thread in (first, *asked):
                thread.join(60)
    with sqlite3.connect(tmp_path / "kept.db") as file:
        stored = Counter(
            json.loads(row[0])["content"]
            for row in file.execute("select payload from records where layer = 'conversation'")
        )
        leased = file.execute(
            "select count(*) from jobs where attempt > 0 and due_at > ?", (system_clock(),)
        ).fetchone()[0]
    assert hung == [503] and set(answered) <= {201, 503} and len(kept) > 50
    assert all(stored[content] == 1 for content in kept) and leased == 0
