"""`recollect reprocess` and `recollect chat --model`: a model at the command line."""

from __future__ import annotations

import json

import pytest
from loopback import Answer, Request, answering

from recollect.testing.fakes import finding, learned

SAID = "What I collect are antique barometers."
COLLECTS = learned(finding(1, "I collect are antique barometers", "antique barometers", key="collection"))


@pytest.fixture
def endpoint(monkeypatch):
    """A model on a local port that answers with the contents of `says`, whole or in two pieces."""
    asked: list[dict] = []
    says = [json.dumps(COLLECTS)]

    def answer(request: Request) -> Answer:
        asked.append(request.body)
        status = 200 if says[0] else 500
        if request.body.get("stream"):
            pieces = [{"choices": [{"delta": {"content": piece}}]} for piece in (says[0][:4], says[0][4:])]
            events = [*map(json.dumps, pieces), "[DONE]"]
            return Answer("".join(f"data: {event}\n\n" for event in events), "text/event-stream", status)
        choice = {"message": {"content": says[0]}, "finish_reason": "stop"}
        return Answer({"choices": [choice]}, status=status)

    with answering(answer) as address:
        monkeypatch.setenv("RECOLLECT_LLM_URL", f"{address}/v1")
        yield asked, says


def stored(recollect, monkeypatch, *lines):
    """Conversations from before anything was learned."""
    monkeypatch.setenv("RECOLLECT_LEARN", "false")
    assert recollect("chat", "--session", "monday", "--script", "-", input="\n".join(lines)).code == 0
    monkeypatch.delenv("RECOLLECT_LEARN")


def facts(recollect):
    return {fact["key"]: fact["value"] for fact in recollect("profile", "--json").json["facts"]}


def test_what_would_be_learned_is_shown_and_then_learned(recollect, monkeypatch):
    stored(recollect, monkeypatch, "I live in Oslo.")
    preview = recollect("reprocess")
    assert preview.code == 0 and "Oslo" in preview.out and "--apply learns them" in preview.out
    assert facts(recollect) == {}
    assert "learned" in recollect("reprocess", "--apply").out
    assert facts(recollect) == {"city": "Oslo"}
    assert "0 differences" in recollect("reprocess").out


def test_a_model_from_the_settings_reads_old_conversations(recollect, monkeypatch, endpoint):
    stored(recollect, monkeypatch, SAID)
    monkeypatch.setenv("RECOLLECT_LLM", "openai:tiny")
    (told,) = recollect("reprocess", "--json").json
    assert told["differences"] == [
        {"change": "added", "layer": "fact", "key": "collection", "value": "antique barometers"}
    ]
    assert (told["by"], told["applied"], told["messages"]) == ("openai:tiny/learn-2", False, 2)
    recollect("reprocess", "--by", "model", "--apply", "--user", "me")
    assert facts(recollect) == {"collection": "antique barometers"}
    assert endpoint[0][0]["response_format"]["json_schema"]["name"] == "learned"


def test_a_failing_model_is_reported_in_one_line_and_changes_nothing(recollect, monkeypatch, endpoint):
    stored(recollect, monkeypatch, SAID)
    endpoint[1][0] = "I cannot do that."
    monkeypatch.setenv("RECOLLECT_LLM", "openai:tiny")
    ran = recollect("reprocess", "--apply")
    assert ran.code != 0 and ran.err.count("\n") == 1 and "barometers" not in ran.err
    assert facts(recollect) == {}


@pytest.mark.parametrize("given", [("--by", "magic"), ("--by", "model")])
def test_an_unavailable_reader_is_refused(recollect, monkeypatch, given):
    stored(recollect, monkeypatch, SAID)
    ran = recollect("reprocess", *given)
    assert ran.code == 2 and "by" in ran.err


# ── chat ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_is_given_what_is_remembered_and_its_answer_is_streamed(recollect, endpoint):
    asked, says = endpoint
    recollect("chat", "--session", "monday", "--script", "-", input="My cat is called Admiral.")
    says[0] = "Your cat is called Admiral."
    ran = recollect(
        "chat", "--session", "friday", "--model", "openai:tiny", "--script", "-", input="What is my cat called?"
    )
    assert ran.code == 0 and "recollect › Your cat is called Admiral." in ran.out
    assert asked[0]["model"] == "tiny" and "My cat is called Admiral." in json.dumps(asked[0]["messages"])
    told = recollect("sessions", "--show", "friday", "--json").json["messages"]
    assert [(each["role"], each["content"]) for each in told] == [
        ("user", "What is my cat called?"),
        ("assistant", "Your cat is called Admiral."),
    ]


def test_a_message_to_a_failing_model_is_kept(recollect, endpoint):
    endpoint[1][0] = ""
    ran = recollect("chat", "--session", "friday", "--model", "openai:tiny", "--script", "-", input="Hello there!")
    assert ran.code != 0 and "tiny" in ran.err
    told = recollect("sessions", "--show", "friday", "--json").json["messages"]
    assert [each["content"] for each in told] == ["Hello there!"]


@pytest.mark.parametrize("model", ["tiny", "openai:", "claude:opus"])
def test_a_model_must_be_named_with_its_kind(recollect, model):
    ran = recollect("chat", "--model", model, "--script", "-", input="Hello!")
    assert ran.code == 2 and "openai:MODEL" in ran.err


def test_lines_and_answers_are_json_on_request(recollect, endpoint):
    endpoint[1][0] = "Hello!"
    ran = recollect("chat", "--model", "openai:tiny", "--script", "-", "--json", input="Hi there.")
    assert json.loads(ran.out.splitlines()[0])["assistant"] == "Hello!"
