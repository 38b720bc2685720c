"""The examples run as they are, with the command in their first line, and show what they say they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback import Answer, Request, answering
from mcp import Client, StdioServerParameters

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
SERVED = "fastapi_app.py"
SHOWN = {
    "a_month.py": ["Leeds: 2 March to 20 March", "hobby           cello, swimming"],
    "assistant.py": ["monday:  Nice to meet you.", "tuesday: I remember"],
    "entity_cache_sql.py": [
        "nothing is known about it",
        "order K-1042: item: 9 metre kite, status: packed",
        "customer C-7: Bea Lindqvist, plan: gold",
        "status: shipped, carrier: DHL",
        "An order that does not exist: None",
    ],
    "langgraph_agent.py": ["I remember I am allergic to peanuts.)", "The memory itself has it too"],
    "mcp_desktop.py": ["tools: get_context, search_memory", "found: I'm Ann, and I water the plants on Fridays."],
    "migrating_from_mem0.py": ["second import: 0 new, 3 already known", "Ann moved to Lisbon in March."],
    "one_conversation.py": [
        "LangChain: 2 messages",
        "I was given 3 items; the first is: I'm Ann. On Friday",
        "MCP: I'm Ann. On Friday I bring my kayak to the workshop",
        "One session: 4 messages, the last by helper",
    ],
    "openai_agents_session.py": ["tuesday: Where did I park?", "input items: 1, memories:"],
    "openai_compatible.py": ["(messages to send: 1)", "(messages to send: 3)"],
    "plain_openai_loop.py": ["It rains in Porto. Take an umbrella."],
    "support_bot.py": [
        "Tarifa: 3 March to 9 March",
        "Cascais: 9 March to now",
        "{'verbosity': 'concise'}",
        "Bent bars are replaced without a photo.",
        "order K-1107: item: Mistral 12",
        "sessions left: 0",
    ],
}


def command(program: Path) -> list[str]:
    """The command in the first line, after the part that says what to install."""
    first = program.read_text(encoding="utf-8").splitlines()[0]
    installs, _, runs = first.removeprefix("# ").rpartition(" && ")
    assert first.startswith("# ") and (
        not installs or re.fullmatch(r'pip install (\.|"\.\[[a-z,-]+\]")( \w+)?', installs)
    )
    return shlex.split(runs)


def environment() -> dict[str, str]:
    """As on a machine where nothing is configured and the package is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECOLLECT_", "OPENAI_"))}
    return kept | {"PYTHONPATH": str(EXAMPLES.parent)}


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.name != SERVED], ids=lambda each: each.name)
def test_an_example_runs_with_the_command_in_its_first_line(program, tmp_path):
    runs = command(program)
    assert runs == ["python", f"examples/{program.name}"]
    (tmp_path / "examples").symlink_to(EXAMPLES)
    whole = [sys.executable, *runs[1:]]
    ran = subprocess.run(whole, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, ran.stderr
    assert [line for line in SHOWN[program.name] if line not in ran.stdout] == []


@pytest.fixture
def endpoint():
    """Speaks like OpenAI's endpoint: calls its tool once, then answers. Yields its address and what it is sent."""
    sent: list[dict[str, Any]] = []

    def answer(request: Request) -> Answer:
        sent.append(request.body)
        return Answer(completion(request.body))

    with answering(answer) as address:
        yield f"{address}/v1", sent


def completion(asked: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "Noted.", "refusal": None, "annotations": []}
    last = asked["messages"][-1]
    if last["role"] == "tool":
        message["content"] = f"The tool says: {last['content']}"
    elif "tools" in asked and "weather" in str(last["content"]):
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Porto"}'}}
        message |= {"content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}


@pytest.mark.parametrize("name", ["plain_openai_loop.py", "openai_compatible.py"])
def test_with_an_endpoint_the_loops_ask_a_model_and_pass_it_what_they_remember(name, endpoint, tmp_path):
    url, sent = endpoint
    environ = environment() | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-none"}
    whole = [sys.executable, str(EXAMPLES / name)]
    ran = subprocess.run(whole, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, ran.stderr
    assert "stand-in" not in ran.stdout and "Noted." in ran.stdout
    assert "Porto" in json.dumps(sent[1]["messages"]) and "annotations" not in json.dumps(sent)
    assert name != "plain_openai_loop.py" or "The tool says: It rains in Porto." in ran.stdout


def test_the_web_application_remembers_each_user_and_forgets_one(tmp_path):
    program = EXAMPLES / SERVED
    runs = command(program)
    assert runs[0] == "uvicorn"
    (tmp_path / "examples").symlink_to(EXAMPLES)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = subprocess.Popen(
        [sys.executable, "-m", *runs, "--port", str(port)], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"X-User": "ann"}) as web:
            assert say(web, "monday", "I'm Ann, and I parked on level three.") == "(a stand-in) Noted."
            assert "level three" in say(web, "tuesday", "Where did I park?")
            assert len(web.get("/sessions").json()) == 2
            assert web.get("/sessions", headers={"X-User": "bob"}).json() == []
            refused = web.post("/chat", json={"session": "x" * 200, "text": "Hello"})
            assert (refused.status_code, "session" in refused.json()["detail"]) == (422, True)
            assert web.delete("/profile").json()["count"] > 0
            assert web.get("/sessions").json() == []
    finally:
        serving.terminate()
        serving.wait(20)


def say(web: httpx.Client, session: str, text: str) -> str:
    deadline = time.monotonic() + 40
    while True:
        try:
            answer = web.post("/chat", json={"session": session, "text": text}).raise_for_status()
            return str(answer.json()["answer"])
        except httpx.ConnectError:
            assert time.monotonic() < deadline, "the application did not start"
            time.sleep(0.1)


async def test_the_config_entry_for_a_desktop_assistant_starts_a_memory(tmp_path):
    text = (EXAMPLES / "mcp_desktop.json").read_text(encoding="utf-8").replace("/home/ann", tmp_path.as_posix())
    entry = json.loads(text)["mcpServers"]["recollect"]
    assert entry["command"] == "recollect"
    program = Path(sys.executable).with_name(entry["command"])
    server = StdioServerParameters(command=str(program), args=entry["args"], env=environment())
    async with Client(server) as assistant:
        await assistant.call_tool("add_fact", {"key": "city", "value": "Porto"})
        assert "Porto" in (await assistant.call_tool("get_profile", {})).content[0].text
    assert (tmp_path / "memory.db").exists()


def test_every_example_is_in_the_index():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = [each.name for each in EXAMPLES.iterdir() if each.suffix in (".py", ".json")]
    assert [name for name in files if f"]({name})" not in index] == []
