"""Claude's memory tool: each command does what its protocol says, on ordinary memories."""

from __future__ import annotations

import pytest

from recollect import sync
from recollect.adapters.claude import MemoryTool
from recollect.testing.fakes import HashingEmbedder

NOTES = "/memories/notes.txt"


@pytest.fixture
async def tool(memory):
    return MemoryTool(memory.user("ann"))


@pytest.fixture
def ask(tool):
    async def asked(command, **given):
        return await tool({"command": command, **given})

    return asked


async def content(ask, path=NOTES):
    lines = (await ask("view", path=path)).split("\n")[1:]
    return "\n".join(line.partition("\t")[2] for line in lines)


async def test_a_file_is_shown_with_line_numbers(ask):
    assert await ask("create", path=NOTES, file_text="one\ntwo\n") == f"File created successfully at: {NOTES}"
    assert await ask("view", path=NOTES) == (
        f"Here's the content of {NOTES} with line numbers:\n     1\tone\n     2\ttwo\n     3\t"
    )
    assert (await ask("view", path=NOTES, view_range=[2, 2])).endswith("numbers:\n     2\ttwo")
    assert (await ask("view", path=NOTES, view_range=[2, -1])).endswith("     2\ttwo\n     3\t")


@pytest.mark.parametrize("text", ["", "\n\n", "  x  \n", "tabs\tand\r\nreturns", "é🍕\u200b"])
async def test_a_file_keeps_every_character(ask, text):
    await ask("create", path=NOTES, file_text=text)
    assert await content(ask) == text


async def test_a_folder_shows_two_levels_and_nothing_hidden(ask):
    assert (await ask("view", path="/memories")).endswith("hidden items:\n0B\t/memories")
    for path, text in {"a.txt": "x" * 2048, "plans/b.txt": "x", "plans/deep/c.txt": "xx", ".hidden/d": "x"}.items():
        await ask("create", path=f"/memories/{path}", file_text=text)
    assert (await ask("view", path="/memories")).split("\n")[1:] == [
        "2.0K\t/memories", "2K\t/memories/a.txt", "3B\t/memories/plans/", "1B\t/memories/plans/b.txt",
        "2B\t/memories/plans/deep/",
    ]  # fmt: skip
    assert "2B\t/memories/plans/deep/c.txt" in await ask("view", path="/memories/plans/")


async def test_a_text_is_replaced_if_it_occurs_exactly_once(ask):
    await ask("create", path=NOTES, file_text="red\ngreen\nred\nblue")
    assert (await ask("str_replace", path=NOTES, old_str="green", new_str="gold")).startswith(
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tred\n     2\tgold"
    )
    assert await content(ask) == "red\ngold\nred\nblue"
    assert "did not appear verbatim" in await ask("str_replace", path=NOTES, old_str="pink", new_str="x")
    assert "in lines: 1, 3." in await ask("str_replace", path=NOTES, old_str="red", new_str="x")
    await ask("create", path="/memories/twice", file_text="a\nb\nc\na\nb")
    assert "in lines: 1, 4." in await ask("str_replace", path="/memories/twice", old_str="a\nb", new_str="x")
    assert "does not exist" in await ask("str_replace", path="/memories/no", old_str="red", new_str="x")
    await ask("str_replace", path=NOTES, old_str="red\ngold\nred\nblue", new_str="")
    assert await content(ask) == ""
    await ask("str_replace", path=NOTES, old_str="", new_str="again")
    assert "Multiple occurrences" in await ask("str_replace", path=NOTES, old_str="", new_str="x")
    assert "`new_str` must be text" in await ask("str_replace", path=NOTES, old_str="again", new_str=7)
    assert await content(ask) == "again"


@pytest.mark.parametrize(("line", "expected"), [(0, "new\none\ntwo\n"), (1, "one\nnew\ntwo\n"), (2, "one\ntwo\nnew\n")])
async def test_a_line_is_inserted(ask, line, expected):
    await ask("create", path=NOTES, file_text="one\ntwo\n")
    assert await ask("insert", path=NOTES, insert_line=line, insert_text="new") == f"The file {NOTES} has been edited."
    assert await content(ask) == expected


async def test_only_a_line_feed_ends_a_line(ask):
    odd = "one\x0cstill one\u2028and one\r\ntwo\x85\n"
    await ask("create", path=NOTES, file_text=odd)
    assert len((await ask("view", path=NOTES)).split("\n")) == 4
    await ask("insert", path=NOTES, insert_line=1, insert_text="new")
    assert await content(ask) == "one\x0cstill one\u2028and one\r\nnew\ntwo\x85\n"
    assert "[0, 3]" in await ask("insert", path=NOTES, insert_line=4, insert_text="x")


@pytest.mark.parametrize(
    "shown", [["a", 2], [1], [1, 2, 3], "1-2", 7, [None, 1], [True, 2], [1.5, 2], [4, 5], [9, -1], [2, 1], {"a": 1}]
)
async def test_an_invalid_range_is_refused(ask, shown):
    await ask("create", path=NOTES, file_text="one\ntwo\n")
    assert "Invalid `view_range`" in await ask("view", path=NOTES, view_range=shown)
    assert "Invalid `insert_line`" in await ask("insert", path=NOTES, insert_line=True, insert_text="x")


async def test_a_folder_of_large_files_can_be_moved(ask):
    for n in range(20):
        await ask("create", path=f"/memories/old/{n}", file_text=f"{n} " + "x" * 60_000)
    assert "Successfully renamed" in await ask("rename", old_path="/memories/old", new_path="/memories/new")
    assert (await content(ask, "/memories/new/19")).startswith("19 ")


async def test_a_line_beyond_the_file_is_refused(ask):
    await ask("create", path=NOTES, file_text="one\ntwo\n")
    assert "[0, 2]" in await ask("insert", path=NOTES, insert_line=5, insert_text="x")


async def test_files_and_folders_are_deleted(ask):
    for path in ("/memories/a/b", "/memories/a/c", "/memories/ab"):
        await ask("create", path=path, file_text="x")
    assert await ask("delete", path="/memories/a") == "Successfully deleted /memories/a"
    assert "does not exist" in await ask("delete", path="/memories/a")
    assert (await ask("view", path="/memories")).endswith("1B\t/memories/ab")
    assert "Cannot delete" in await ask("delete", path="/memories")


async def test_files_and_folders_are_renamed(ask):
    for path in ("/memories/a/b", "/memories/a/deep/c", "/memories/taken"):
        await ask("create", path=path, file_text=path)
    assert await ask("rename", old_path="/memories/a", new_path="/memories/z") == (
        "Successfully renamed /memories/a to /memories/z"
    )
    assert await content(ask, "/memories/z/deep/c") == "/memories/a/deep/c"
    assert "does not exist" in await ask("view", path="/memories/a")
    assert "already exists" in await ask("rename", old_path="/memories/z/b", new_path="/memories/taken")
    assert "cannot be moved" in await ask("rename", old_path="/memories/z", new_path="/memories/z/inside")


async def test_a_folder_with_a_file_that_cannot_be_moved_stays_where_it_is(ask, memory):
    for n in range(100):
        await ask("create", path=f"/memories/old/{n}", file_text=f"File {n}.")
    await ask("create", path="/memories/old/blank", file_text=" " * 16_000)
    there = await ask("view", path="/memories")
    assert "metadata" in await ask("rename", old_path="/memories/old", new_path=f"/memories/{'new' * 300}")
    assert await ask("view", path="/memories") == there
    assert await content(ask, "/memories/old/99") == "File 99."


async def test_a_file_is_not_created_twice(ask):
    await ask("create", path=NOTES, file_text="mine")
    assert await ask("create", path=NOTES, file_text="other") == f"Error: File {NOTES} already exists"
    assert await content(ask) == "mine"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/memories/../etc", "/memories/./x", "memories/x", "/memoriesx", "", "/memories//x", 7]
)
async def test_paths_stay_under_memories(ask, path):
    assert (await ask("create", path=path, file_text="x")).startswith("Error:")


async def test_what_cannot_be_done_is_reported_and_not_raised(ask):
    assert (await ask("undo", path=NOTES)).startswith("Error: Unknown command")
    assert (await ask("create", path=NOTES)).startswith("Error: `file_text`")
    assert (await ask("create", path=NOTES, file_text="x" * 70_000)).startswith("Error: content")
    assert (await ask("view", path="/memories/none")).startswith("Error: The path /memories/none does not exist")


async def test_two_files_with_the_same_text_stay_separate(ask, memory):
    for name in ("one", "two"):
        await ask("create", path=f"/memories/{name}", file_text="Ann likes green tea")
    await memory.work()
    await ask("str_replace", path="/memories/two", old_str="green", new_str="black")
    assert await content(ask, "/memories/one") == "Ann likes green tea"
    assert await content(ask, "/memories/two") == "Ann likes black tea"


async def test_deleting_a_file_keeps_other_files_and_memories_with_the_same_text(ask, memory):
    ann = memory.user("ann")
    for name in ("one", "two"):
        await ask("create", path=f"/memories/{name}/tea", file_text="Ann likes green tea")
    said = await ann.add_memory("Ann likes green tea")
    await memory.work()
    await memory.maintain()
    await ask("delete", path="/memories/one")
    assert await content(ask, "/memories/two/tea") == "Ann likes green tea"
    assert [each.id for each in await ann.get_memories([said.id])] == [said.id]
    await ann.forget(said.id)
    assert await content(ask, "/memories/two/tea") == "Ann likes green tea"


async def test_what_claude_writes_is_remembered_outside_the_tool_too(ask, memory):
    await ask("create", path=NOTES, file_text="Ann is allergic to peanuts")
    assert (await memory.user("ann").search_memory("allergic"))[0].content == "Ann is allergic to peanuts"
    assert "peanuts" in (await memory.user("ann").session("x").get_context("What is Ann allergic to?")).system
    assert await memory.user("bob").search_memory("allergic") == []


def test_it_works_without_await():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        tool = MemoryTool(memory.user("ann"))
        tool.run({"command": "create", "path": NOTES, "file_text": "hello"})
        assert "hello" in tool.run({"command": "view", "path": NOTES})


async def test_a_file_is_not_a_folder_and_a_folder_is_not_a_file(ask):
    await ask("create", path="/memories/a", file_text="x")
    await ask("create", path="/memories/b/c", file_text="x")
    assert await ask("create", path="/memories/a/deep/er", file_text="x") == (
        "Error: /memories/a is a file, not a folder"
    )
    assert await ask("create", path="/memories/b", file_text="x") == "Error: File /memories/b already exists"
    assert "is a file" in await ask("rename", old_path="/memories/b/c", new_path="/memories/a/c")
    assert "already exists" in await ask("create", path="/memories/a", file_text="x")  # even with the same text
