"""Claude's memory tool in Anthropic's own SDK: it behaves like the SDK's file tool and works in its tool runner."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.tools import ToolError
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool, BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Answer, Request, answering

from recollect import sync
from recollect.adapters.anthropic import AsyncMemoryTool, MemoryTool
from recollect.adapters.langchain import Retriever
from recollect.testing.fakes import HashingEmbedder

NOTES = "/memories/notes.md"
Command = dict[str, Any]


def to(command: str, path: str = NOTES, **given: Any) -> Command:
    return {"command": command, "path": path, **given}


def rename(old: str, new: str) -> Command:
    return {"command": "rename", "old_path": old, "new_path": new}


# ── compared with the SDK's file tool ────────────────────────────────────────────────────────────

A, B, D, K = "/memories/a.txt", "/memories/b.txt", "/memories/d", "/memories/k"
COMMANDS = [
    to("view", "/memories"),
    to("create", A, file_text="one\ntwo\nthree\n"),
    to("create", A, file_text="x"),
    to("view", A),
    to("view", A, view_range=[2, 3]),
    to("view", A, view_range=[2, -1]),
    to("view", A, view_range=[0, 9]),
    to("view", B),
    to("str_replace", A, old_str="two", new_str="2"),
    to("str_replace", A, old_str="zwei", new_str="2"),
    to("str_replace", A, old_str="e", new_str="2"),
    to("str_replace", A, old_str="", new_str="2"),
    to("str_replace", B, old_str="e", new_str="2"),
    to("str_replace", "/memories", old_str="e", new_str="2"),
    to("insert", A, insert_line=0, insert_text="zero\n"),
    to("insert", A, insert_line=2, insert_text="mid"),
    to("insert", A, insert_line=5, insert_text="\nend\n\n"),
    to("insert", A, insert_line=99, insert_text="mid"),
    to("insert", B, insert_line=0, insert_text="mid"),
    to("view", A),
    to("create", f"{D}/e/f.txt", file_text="deep"),
    to("create", f"{D}/g.txt", file_text="less deep"),
    to("create", f"{D}/e/h/i.txt", file_text="deepest"),
    to("create", f"{D}.txt", file_text="sorted behind the folder"),
    to("create", f"{D}/node_modules/x", file_text="x" * 1536),
    to("create", "/memories/.hidden", file_text="h"),
    to("create", "/memories/of/.hidden", file_text="h"),
    to("create", D, file_text="a folder is here"),
    to("create", f"{A}/b", file_text="a file is here"),
    to("insert", D, insert_line=0, insert_text="x"),
    to("view", "/memories"),
    to("view", D),
    rename(A, B),
    rename(A, "/memories/c.txt"),
    rename(B, f"{D}/g.txt"),
    rename("/memories/none", f"{D}/g.txt"),
    rename(D, K),
    rename(K, f"{K}/inside"),
    rename(B, f"{B}/inside"),
    rename(B, "/memories"),
    rename("/memories", K),
    to("view", "/memories"),
    to("delete", "/memories/nope"),
    to("delete", f"{K}/g.txt"),
    to("delete", K),
    to("delete", "/memories"),
    to("view", "/etc/passwd"),
    to("create", "/memories/empty.txt", file_text=""),
    to("view", "/memories/empty.txt"),
    to("insert", "/memories/empty.txt", insert_line=0, insert_text=""),
    to("str_replace", "/memories/empty.txt", old_str="\n", new_str=""),
    to("str_replace", "/memories/empty.txt", old_str="", new_str="filled"),
    to("view", "/memories"),
]

NAMES = ("a", "b", "d", "d/a", "d/e/a", ".h/a", "a.b")
PATHS = st.sampled_from(["/memories", *(f"/memories/{name}" for name in NAMES)])
TEXTS = st.text("ab\n", max_size=6)
BEGUN = [to("create", f"/memories/{name}", file_text="ab\nb\n") for name in ("a", "d/a", "d/e/a", ".h/a")]
SOME_COMMANDS = st.one_of(
    st.builds(to, st.just("create"), PATHS, file_text=TEXTS),
    st.builds(to, st.just("str_replace"), PATHS, old_str=st.text("ab\n", max_size=2), new_str=TEXTS),
    st.builds(to, st.just("insert"), PATHS, insert_line=st.integers(-1, 4), insert_text=TEXTS),
    st.builds(to, st.just("delete"), PATHS),
    st.builds(rename, PATHS, PATHS),
    st.builds(to, st.just("view"), PATHS),
    st.builds(to, st.just("view"), PATHS, view_range=st.tuples(st.integers(0, 4), st.integers(-1, 5)).map(list)),
)


class Files:
    """The SDK's file tool, with folders removed along with their last file."""

    def __init__(self, folder: str | Path) -> None:
        self.root = Path(folder) / "memories"
        self.tool = BetaLocalFilesystemMemoryTool(str(folder))

    def call(self, command: Command) -> Any:
        try:
            return self.tool.call(command)
        finally:
            for folder in sorted(self.root.rglob("*"), reverse=True):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()

    def tree(self) -> dict[str, str]:
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {f"/memories/{path.relative_to(self.root)}": path.read_bytes().decode() for path in files}


def tree(user: sync.User) -> dict[str, str]:
    """Every file of a user, as the memory lists it."""
    found, _ = user.list_memories(limit=1_000)
    return {each.metadata["memory_path"]: each.metadata.get("memory_blank", each.content) for each in found}


def told(tool: Any, command: Command) -> tuple[bool, str | None]:
    """Whether a command succeeded, and its answer without the parts that may differ."""
    try:
        return True, alike(tool.call(command))
    except ToolError as error:
        return False, alike(str(error))
    except OSError:
        return False, None


def alike(answer: str) -> str:
    """An answer without folder sizes, naming a line once even if it contains the text twice."""
    listed = answer.startswith("Here're the files")
    if listed:
        first, top, *lines = answer.split("\n")
        lines = [re.sub(r"^\S+(?=\t.*/$)", "-", line) for line in lines]
        return "\n".join([first, top.partition("\t")[2], *lines])
    numbers = re.search(r"in lines: ([\d, ]+)\.", answer)
    return answer.replace(numbers[1], ", ".join(dict.fromkeys(numbers[1].split(", ")))) if numbers else answer


def compare(ours: MemoryTool, user: sync.User, theirs: Files, commands: list[Command]) -> None:
    for command in commands:
        (done, answer), (expected, expected_answer) = told(ours, command), told(theirs, command)
        nothing_shown = "view_range" in command and (expected_answer or "").endswith("numbers:\n")
        if nothing_shown:  # ours reports that there are no such lines
            assert not done and "Invalid `view_range`" in str(answer)
        else:
            assert done == expected, (command, answer, expected_answer)
            assert answer == expected_answer or expected_answer is None or answer is None, command
        assert tree(user) == theirs.tree(), command


@pytest.fixture
def plain() -> Iterator[sync.Memory]:
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        yield memory


def test_each_command_leaves_the_same_files_and_answer_as_the_file_tool(plain, tmp_path):
    ann = plain.user("ann")
    compare(MemoryTool(ann), ann, Files(tmp_path), COMMANDS)
    assert tree(ann).keys() == {B, f"{D}.txt", "/memories/.hidden", "/memories/of/.hidden", "/memories/empty.txt"}


@given(st.lists(SOME_COMMANDS, min_size=4, max_size=16))
@settings(max_examples=200)
def test_any_sequence_of_commands_leaves_the_same_files_and_answers(plain, commands):
    ann = plain.user("ann")
    MemoryTool(ann).clear_all_memory()
    with tempfile.TemporaryDirectory() as folder:
        compare(MemoryTool(ann), ann, Files(folder), [*BEGUN, *commands])


async def test_both_forms_of_the_tool_answer_the_same(memory, plain, tmp_path):
    slow, quick = MemoryTool(plain.user("ann")), AsyncMemoryTool(memory.user("ann"))
    theirs = BetaAsyncLocalFilesystemMemoryTool(str(tmp_path))
    for command in COMMANDS[:26]:
        told_by = [told(slow, command)]
        for tool in (quick, theirs):
            try:
                told_by.append((True, alike(await tool.call(command))))
            except ToolError as error:
                told_by.append((False, alike(str(error))))
        assert told_by[0] == told_by[1] == told_by[2]


# ── in the tool runner, over HTTP ────────────────────────────────────────────────────────────────


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(id: str, input: Command) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "memory", "input": input}


class Claude:
    """Speaks the Messages API, whole or streamed, and follows its script turn by turn."""

    def __init__(self, *script: list[dict[str, Any]]) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, request: Request) -> Answer:
        assert request.path.partition("?")[0] == "/v1/messages" and request.headers["Authorization"] == "Bearer none"
        self.requests.append(request.body)
        content = self.script.pop(0)
        stop = {"stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn", "stop_sequence": None}
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": content,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            **stop,
        }
        if not request.body.get("stream"):
            return Answer(message)
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            *(piece for index, block in enumerate(content) for piece in streamed(index, block)),
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return Answer("".join(lines), "text/event-stream")

    @property
    def results(self) -> dict[str, tuple[str, bool]]:
        """The answer to each tool call, and whether it was an error."""
        messages = [message for request in self.requests for message in request["messages"]]
        blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
        found = [block for block in blocks if block["type"] == "tool_result"]
        return {block["tool_use_id"]: (block["content"], block.get("is_error", False)) for block in found}


def streamed(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A block in several pieces."""
    if block["type"] == "text":
        empty, whole = block | {"text": ""}, block["text"]
        deltas = [{"type": "text_delta", "text": part} for part in (whole[:3], whole[3:])]
    else:
        empty, whole = block | {"input": {}}, json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (whole[:9], whole[9:])]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


@contextmanager
def served(claude: Claude) -> Iterator[Claude]:
    with answering(claude.answer) as claude.url:
        yield claude


def asked(claude: Claude) -> dict[str, Any]:
    return {"base_url": claude.url, "api_key": "none", "max_retries": 0}


TURN: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "What may I not eat?"}],
}


async def run(claude: Claude, tool: AsyncMemoryTool, stream: bool = False, **more: Any) -> str:
    async with AsyncAnthropic(**asked(claude)) as client:
        runner = client.beta.messages.tool_runner(tools=[tool], stream=stream, **TURN, **more)
        return (await runner.until_done()).content[0].text


def run_plain(claude: Claude, tool: MemoryTool, stream: bool = False, **more: Any) -> str:
    with Anthropic(**asked(claude)) as client:
        runner = client.beta.messages.tool_runner(tools=[tool], stream=stream, **TURN, **more)
        return runner.until_done().content[0].text


def script() -> Claude:
    """Claude writes a file, reads it, asks for a missing one, tries to escape the folder, and answers."""
    return Claude(
        [text("I look."), use("t1", to("create", file_text="Ann is allergic to peanuts.\n"))],
        [use("t2", to("view")), use("t3", to("view", "/memories/none"))],
        [use("t4", to("view", "/memories/../../etc/passwd"))],
        [text("No peanuts.")],
    )


RESULTS = {
    "t1": (f"File created successfully at: {NOTES}", False),
    "t2": (f"Here's the content of {NOTES} with line numbers:\n     1\tAnn is allergic to peanuts.\n     2\t", False),
    "t3": ("The path /memories/none does not exist. Please provide a valid path.", True),
    "t4": ("Path /memories/../../etc/passwd must not contain an empty name, `.` or `..`", True),
}
WAYS = [{}, {"thread": False}, {"stream": True}, {"stream": True, "run_tools_eagerly": True}]
"""The runner sends what was said once or every time, asks for whole answers or streams, waits for their end or not."""


@pytest.mark.parametrize("how", WAYS, ids=str)
async def test_the_tool_runner_passes_every_command_to_the_memory_and_its_answer_back(memory, how):
    with served(script()) as claude:
        assert await run(claude, AsyncMemoryTool(memory.user("ann")), **how) == "No peanuts."
    assert claude.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert claude.results == RESULTS
    (hit,) = await memory.user("ann").search_memory("allergic")
    assert hit.content == "Ann is allergic to peanuts.\n"


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_the_tool_runner_without_await_does_the_same(plain, how):
    with served(script()) as claude:
        assert run_plain(claude, MemoryTool(plain.user("ann")), **how) == "No peanuts."
    assert claude.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert claude.results == RESULTS
    assert tree(plain.user("ann")) == {NOTES: "Ann is allergic to peanuts.\n"}


async def test_the_tool_definition_can_carry_cache_control(memory):
    with served(Claude([text("Hello.")])) as claude:
        await run(claude, AsyncMemoryTool(memory.user("ann"), cache_control={"type": "ephemeral"}))
    assert claude.requests[0]["tools"][0]["cache_control"] == {"type": "ephemeral"}


# ── on the memory of a user ──────────────────────────────────────────────────────────────────────


async def test_what_claude_writes_is_found_by_other_adapters_but_not_by_other_users(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    await AsyncMemoryTool(ann).call(to("create", file_text="Ann is allergic to peanuts."))
    assert (await Retriever(user=ann).ainvoke("allergic"))[0].page_content == "Ann is allergic to peanuts."
    assert "peanuts" in (await ann.session("x").get_context("What is Ann allergic to?")).system
    with pytest.raises(ToolError, match="does not exist"):
        await AsyncMemoryTool(bob).call(to("view"))
    assert NOTES not in await AsyncMemoryTool(bob).call(to("view", "/memories"))
    assert await bob.search_memory("allergic") == []


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/memories/../bob", "/memories/./x", "/memoriesx", "", "/memories//x", 7]
)
async def test_a_path_that_is_not_a_plain_path_under_memories_is_refused(memory, path):
    with pytest.raises(ToolError):
        await AsyncMemoryTool(memory.user("ann")).call(to("create", path, file_text="x"))
    assert await memory.user("ann").list_memories() == ([], None)


async def test_clearing_forgets_the_files_of_one_user_and_nothing_else(memory):
    ann, bob = memory.user("ann"), memory.user("bob")
    tool = AsyncMemoryTool(ann)
    for owner in (ann, bob):
        await AsyncMemoryTool(owner).call(to("create", file_text="likes green tea"))
    await tool.call(to("create", "/memories/deep/er/.hidden", file_text="x"))
    await ann.add_memory("Ann plays the oboe")
    assert await tool.clear_all_memory() == "All memory cleared"
    assert await tool.clear_all_memory() == "All memory cleared"
    assert [each.content for each in (await ann.list_memories())[0]] == ["Ann plays the oboe"]
    assert "green tea" in await AsyncMemoryTool(bob).call(to("view"))


async def test_a_file_that_is_too_large_is_reported_and_nothing_is_lost(memory):
    tool = AsyncMemoryTool(memory.user("ann"))
    await tool.call(to("create", file_text="short"))
    with pytest.raises(ToolError, match="content"):
        await tool.call(to("str_replace", old_str="short", new_str="x" * 70_000))
    assert (await tool.call(to("view"))).endswith("     1\tshort")


async def test_no_concurrent_edit_is_lost_silently(memory):
    tools = [AsyncMemoryTool(memory.user("ann")) for _ in range(6)]
    await tools[0].call(to("create", file_text="list:\n"))
    edits = [to("insert", insert_line=1, insert_text=f"item {n}") for n in range(6)]
    ends = await asyncio.gather(*map(AsyncMemoryTool.call, tools, edits), return_exceptions=True)
    assert all(isinstance(end, str | ToolError) for end in ends)
    shown = await tools[0].call(to("view"))
    assert [f"item {n}\n" in f"{shown}\n" for n in range(6)] == [isinstance(end, str) for end in ends]


async def test_an_application_can_override_a_command(memory):
    class Careful(AsyncMemoryTool):
        async def delete(self, command: Any) -> str:
            raise ToolError("Nothing is deleted here")

    tool = Careful(memory.user("ann"))
    await tool.call(to("create", file_text="x"))
    with pytest.raises(ToolError, match="Nothing is deleted"):
        await tool.call(to("delete"))
    assert (await tool.call(to("view"))).endswith("\tx")
