"""What `recollect doctor` says about settings, embeddings and models: what is well, and how to fix what is not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from recollect.interfaces import doctor
from recollect.testing.endpoint import answer, serving, sleep_on_it


@pytest.fixture
def embedder_check(recollect):
    def check() -> dict[str, str]:
        return next(check for check in recollect("doctor", "--json").json if check["name"] == "embedder")

    return check


@pytest.fixture(autouse=True)
def a_memory_with_meaning(recollect):
    recollect("add", "Ann's bicycle is green.")
    recollect("worker", "--once")


def test_a_folder_without_memories_is_healthy_and_says_how_to_begin(recollect, tmp_path, monkeypatch):
    (tmp_path / "fresh").mkdir()
    monkeypatch.chdir(tmp_path / "fresh")
    ran = recollect("doctor", "--json", at=None)
    (store,) = [check for check in ran.json if check["name"] == "store"]
    assert (ran.code, store["state"]) == (0, "ok")
    assert "nothing is kept there yet" in store["found"] and "recollect add" in store["advice"]
    assert list((tmp_path / "fresh").iterdir()) == []


def test_a_server_that_cannot_be_reached_stays_a_failure(recollect):
    ran = recollect("doctor", "--json", at="redis://127.0.0.1:1/0")
    assert ran.code == 1
    assert "fail" in [check["state"] for check in ran.json if "store" in check["name"]]


@pytest.mark.parametrize(("at", "layers", "found"), [
    ("redis://127.0.0.1:1/0", "", "in memory, because redis:// could not be opened"),
    ("sqlite:///here.db", "working=redis://127.0.0.1:1/0", "working: in memory, because redis:// could not be opened"),
])  # fmt: skip
def test_a_store_that_memory_stands_in_for_is_a_failure_and_named(recollect, tmp_path, monkeypatch, at, layers, found):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_FALLBACK", "memory")
    monkeypatch.setenv("RECOLLECT_LAYERS", layers)
    recollect("add", "Ann's bicycle is green.", at=at)
    ran = recollect("doctor", "--json", at=at)
    (fallback,) = [check for check in ran.json if check["name"] == "fallback"]
    assert (ran.code, fallback["state"]) == (1, "fail")
    assert fallback["found"].startswith(found)
    assert "sqlite:///" not in fallback["advice"], "there is a store for it, only not at hand"


def test_the_doctor_says_where_settings_come_from_and_which_are_misspelt(recollect, tmp_path, monkeypatch):
    def settings() -> dict[str, str]:
        return next(check for check in recollect("doctor", "--json").json if check["name"] == "settings")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "recollect.toml").write_text("poll_s = 2\n")
    monkeypatch.setenv("RECOLLECT_CONVERSATION_DAYS", "365")
    assert settings()["found"].startswith("recollect.toml, ") and "RECOLLECT_CONVERSATION_DAYS" in settings()["found"]
    monkeypatch.setenv("RECOLLECT_CONVERSTION_DAYS", "365")
    told = settings()
    assert told["state"] == "warn" and told["found"].startswith("RECOLLECT_CONVERSTION_DAYS: not read")
    assert told["advice"] == "perhaps RECOLLECT_CONVERSATION_DAYS is meant"


def test_scheduled_work_does_not_count_as_waiting(recollect):
    jobs = recollect("stats", "--json").json["jobs"]
    assert (jobs["waiting"], jobs["running"]) == (0, 0) and jobs["scheduled"] > 0
    (check,) = [check for check in recollect("doctor", "--json").json if check["name"] == "jobs"]
    assert check["state"] == "ok" and check["found"].startswith("0 waiting, 0 running")


def test_the_doctor_finds_the_default_embedder_healthy(embedder_check):
    assert embedder_check()["state"] == "ok"


def test_a_model_that_was_not_built_is_reported_with_the_command_that_builds_it(embedder_check, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "minilm")
    monkeypatch.setenv("RECOLLECT_MODELS", str(tmp_path / "models"))
    check = embedder_check()
    assert check["state"] == "warn"
    assert "recollect models build" in check["advice"]
    assert "force-reinstall" not in check["advice"]


def test_searching_by_words_alone_is_reported_as_a_choice(embedder_check, monkeypatch):
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "none")
    check = embedder_check()
    assert check["state"] == "warn"
    assert "unless this is what you want" in check["advice"]


def test_memories_of_another_embedder_are_reported_with_the_way_to_convert_them(embedder_check, monkeypatch):
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "openai:text-embedding-3-small@512")
    check = embedder_check()
    assert check["state"] == "warn"
    assert "wordllama-l2-256" in check["found"]
    assert "recollect reembed" in check["advice"]


# ── Models behind endpoints ──────────────────────────────────────────────────────────────────────

YES = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
VECTOR = {"data": [{"index": 0, "embedding": [0.6, 0.8]}]}


@asynccontextmanager
async def an_endpoint(monkeypatch, setting: str, path: str, usual):
    async with serving(path, lambda body: usual) as endpoint:
        monkeypatch.setenv(f"RECOLLECT_{setting}", "openai:small")
        monkeypatch.setenv(f"RECOLLECT_{setting}_URL", endpoint.url)
        yield endpoint


async def _examined(url: str) -> dict[str, doctor.Check]:
    return {check.name: check async for check in doctor.examine(url)}


async def test_a_chat_model_is_asked_one_short_question(url, monkeypatch):
    async with an_endpoint(monkeypatch, "LLM", "/v1/chat/completions", YES) as endpoint:
        check = (await _examined(url))["chat model"]
    assert check.state == "ok" and check.found.startswith("openai:small answered in ")
    (request,) = endpoint.requests
    assert len(str(request["messages"])) < 100


async def test_without_a_chat_model_none_is_asked_and_nothing_is_reported_missing(url):
    assert "chat model" not in await _examined(url)


async def test_a_chat_model_is_asked_before_there_are_memories_too(tmp_path, monkeypatch):
    async with an_endpoint(monkeypatch, "LLM", "/v1/chat/completions", YES):
        found = await _examined(f"sqlite:///{tmp_path}/not yet.db")
    assert "nothing is kept there yet" in found["store"].found and found["chat model"].state == "ok"


async def test_a_chat_model_that_refuses_is_reported_with_what_to_check(url, monkeypatch):
    async with an_endpoint(monkeypatch, "LLM", "/v1/chat/completions", YES) as endpoint:
        endpoint.always = answer(401)
        check = (await _examined(url))["chat model"]
    assert check.state == "warn" and "401" in check.found
    assert "check llm, llm_url and llm_key" in check.advice


async def test_a_chat_model_that_does_not_answer_is_not_waited_for_long(url, monkeypatch):
    monkeypatch.setattr(doctor, "ANSWER_S", 0.2)
    async with an_endpoint(monkeypatch, "LLM", "/v1/chat/completions", YES) as endpoint:
        endpoint.always = sleep_on_it
        async with asyncio.timeout(20):
            check = (await _examined(url))["chat model"]
    assert check.state == "warn" and "openai:small did not answer" in check.found


async def test_an_embeddings_endpoint_is_asked_for_one_embedding(url, monkeypatch):
    async with an_endpoint(monkeypatch, "EMBEDDER", "/v1/embeddings", VECTOR) as endpoint:
        well = (await _examined(url))["embeddings"]
        endpoint.always = answer(500)
        ill = (await _examined(url))["embeddings"]
    assert (well.state, ill.state) == ("ok", "warn")
    assert "embedder_url" in ill.advice


@pytest.mark.parametrize(
    ("name", "value"), [("llm", "magic"), ("embedder", "magic"), ("masking", "magic"), ("index", "magic://")]
)
def test_a_setting_that_prevents_opening_is_named_and_the_store_is_not_blamed(recollect, monkeypatch, name, value):
    monkeypatch.setenv(f"RECOLLECT_{name.upper()}", value)
    ran = recollect("doctor", "--json")
    (failed,) = [check for check in ran.json if check["state"] == "fail"]
    assert ran.code == 1
    assert failed["name"] == {"llm": "chat model"}.get(name, name)
    assert "recollect.db" not in failed["found"]
