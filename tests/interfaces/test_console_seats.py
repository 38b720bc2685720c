"""Who is signed in at the console: known to every process, never by a forged cookie, and not for ever."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from server_stage import children, client_of, opened, proof_in, served_by_two, shown, signed_in, until

from recollect.errors import ValidationError
from recollect.records import DAY_MS
from recollect.server.console.door import COOKIE
from recollect.server.seats import HOME, LIFE_MS, secret_of
from recollect.server.service import Service
from recollect.settings import Settings
from recollect.testing.stores import KINDS, fresh_url

SECRET = "0123456789abcdef" * 4
FRESH = httpx.Limits(max_keepalive_connections=0)
"""Each request opens its own connection, so that any process may answer it."""


@pytest.fixture
async def service(clock):
    async with opened(clock=clock, settings={"console_secret": SECRET}) as service:
        yield service


async def is_in(client: httpx.AsyncClient) -> bool:
    answer = await client.get("/users")
    assert answer.status_code == 200 or answer.headers["location"] == "/sign-in", answer.status_code
    return answer.status_code == 200


# ── Several processes ────────────────────────────────────────────────────────────────────────────


@contextmanager
def only(one: int, crew: list[int]) -> Iterator[None]:
    """For the duration of the block, only this process of the crew answers."""
    others = [pid for pid in crew if pid != one]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
        until(lambda pid=pid: ") T " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"))
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


async def test_a_visitor_signed_in_at_one_process_is_known_to_all_until_signing_out(tmp_path):
    # No worker runs, so that no process is stopped while it holds the file.
    with served_by_two(tmp_path, "--set", "worker=false") as (address, running):
        crew = until(lambda: (found := children(running.pid)) and len(found) == 2 and found)
        async with httpx.AsyncClient(base_url=address, limits=FRESH, timeout=20) as client:
            with only(crew[0], crew):
                page = await shown(client, "/keys")
            with only(crew[1], crew):  # even without keys, a form of one process is accepted by the other
                made = await client.post("/keys", data={"proof": proof_in(page), "scope": "admin", "name": "first"})
            token = re.search(r"rk_[0-9a-f]{12}_[\w-]{43}", made.text)[0]
            with only(crew[0], crew):
                await signed_in(client, token)
            for place in (1, 0, 1, 0):
                with only(crew[place], crew):
                    assert [await is_in(client) for _ in range(5)] == [True] * 5
                    page = await shown(client, "/users")
            kept = dict(client.cookies)
            with only(crew[1], crew):
                assert (await client.post("/sign-out", data={"proof": proof_in(page)})).status_code == 303
            client.cookies.update(kept)
            for pid in crew:
                with only(pid, crew):
                    assert not await is_in(client)
    assert kept[COOKIE] not in (tmp_path / "requests.log").read_text()


async def test_servers_with_the_same_secret_and_store_know_each_others_visitors(tmp_path, clock):
    def machine(secret: str):
        return opened(f"sqlite:///{tmp_path}/kept.db", clock=clock, settings={"console_secret": secret})

    async with machine(SECRET) as one, machine(SECRET) as other, machine("another " * 8) as foreign:
        _, token = await one.keys.create(org="default")
        async with client_of(one) as client:
            await signed_in(client, token)
            cookies = dict(client.cookies)
        async with client_of(other, cookies=cookies) as client:
            assert await is_in(client)
        async with client_of(foreign, cookies=cookies) as client:
            assert not await is_in(client)


async def test_without_a_configured_secret_every_start_has_a_new_one(clock):
    async with opened(clock=clock) as before, opened(clock=clock) as after:
        cookie = before.seats.take("key")
        assert await before.seats.key_of(cookie) == "key"
        assert await after.seats.key_of(cookie) is None
        assert not after.seats.proves("", before.seats.proof(""))


# ── What is not accepted ─────────────────────────────────────────────────────────────────────────


async def test_a_cookie_changed_anywhere_is_no_longer_valid(service):
    cookie = service.seats.take("0123456789ab")
    assert await service.seats.key_of(cookie) == "0123456789ab"
    for place, character in enumerate(cookie):
        changed = cookie[:place] + ("1" if character != "1" else "2") + cookie[place + 1 :]
        assert await service.seats.key_of(changed) is None, place


@pytest.mark.parametrize("cookie", ["", ".", "...", "a.b.c.d", "ü" * 64, "." * 5_000, "0123456789ab.99999999999999.x."])
async def test_a_cookie_that_is_not_ours_signs_nobody_in(service, cookie):
    assert await service.seats.key_of(cookie) is None
    await service.seats.leave(cookie)
    assert (await service.stores["everything"].changes(HOME, None)).put == ()


async def test_the_proof_of_a_form_does_not_work_as_a_cookie(service):
    seat = service.seats.take("0123456789ab").rpartition(".")[0]
    assert await service.seats.key_of(f"{seat}.{service.seats.proof(seat)}") is None


async def test_a_seat_ends_after_half_a_day_or_with_its_key(service, clock):
    _, token = await service.keys.create(org="default")
    _, short = await service.keys.create(org="default", expires="1h")
    async with client_of(service) as long_seat, client_of(service) as short_seat:
        await signed_in(long_seat, token)
        await signed_in(short_seat, short)
        clock.advance(hours=1)
        assert [await is_in(long_seat), await is_in(short_seat)] == [True, False]
        clock.advance(hours=11, milliseconds=-1)
        assert await is_in(long_seat)
        clock.advance(milliseconds=1)
        assert not await is_in(long_seat)


async def test_a_revoked_key_is_signed_out_at_the_next_click(service):
    key, token = await service.keys.create(org="default")
    async with client_of(service) as client:
        await signed_in(client, token)
        assert await is_in(client)
        await service.keys.revoke(key.id)
        assert not await is_in(client)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sign_out_is_recorded_in_every_store_for_as_long_as_the_cookie_would_be_valid(kind, clock):
    with fresh_url(kind) as url:
        async with opened(url, clock=clock, settings={"job_attempts_max": 1}) as service:
            one, other = service.seats.take("a"), service.seats.take("b")
            for _ in range(2):
                await service.seats.leave(one)
            assert await service.seats.key_of(one) is None and await service.seats.key_of(other) == "b"
            clock.now_ms += LIFE_MS + 2 * DAY_MS
            later = service.seats.take("c")
            await service.seats.leave(later)
            await service.memory.work()
            left = (await service.stores["everything"].changes(HOME, None)).put
            assert [each.id for each in left] == [later.split(".")[2]]
            survey = await service.memory.survey()
            assert set(survey.records) == {"seat"} and survey.jobs_scheduled == 1, "the work comes back for the rest"


# ── The secret ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", ["short", "x" * 31, "ü" * 40])
def test_a_secret_that_could_be_guessed_is_refused_and_not_repeated(given):
    with pytest.raises(ValidationError) as refused:
        Service("memory://", settings=Settings(console_secret=given), environ={})
    assert refused.value.field == "console_secret" and given not in str(refused.value)


def test_the_secret_is_read_from_the_environment_and_shown_nowhere():
    settings = Settings.read({"RECOLLECT_CONSOLE_SECRET": SECRET})
    assert secret_of(settings.console_secret) == SECRET and SECRET not in repr(settings)
    assert len({secret_of("") for _ in range(3)}) == 3
