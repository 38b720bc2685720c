"""LlamaIndex's memory with our block: what drops out of the short term is kept and comes back when it is relevant."""

from __future__ import annotations

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.memory import Memory as LlamaMemory
from pydantic import BaseModel

from recollect import ContextPolicy, sync
from recollect.adapters.llama_index import MemoryBlock
from recollect.errors import ValidationError
from recollect.testing.fakes import HashingEmbedder


def words(text: str) -> list[str]:
    return text.split()


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


@pytest.fixture
async def block(memory):
    return MemoryBlock(user=memory.user("ann"), session_id="monday")


async def test_what_leaves_the_short_term_is_remembered(block, memory):
    llama = LlamaMemory.from_defaults(
        session_id="monday", token_limit=60, token_flush_size=30, chat_history_token_ratio=0.5,
        memory_blocks=[block], tokenizer_fn=words,
    )  # fmt: skip
    await llama.aput(said("I parked my red Fiat on level three."))
    for number in range(12):
        await llama.aput(said(f"And by the way this is remark number {number} of today."))
    stored = await memory.user("ann").session("monday").window()
    assert stored[0].content == "I parked my red Fiat on level three."
    history = await llama.aget(input="Where is the Fiat?")
    assert "red Fiat on level three" in history[0].content


async def test_the_block_knows_what_was_stored_elsewhere(block, memory):
    await memory.user("ann").add_memory("Ann is allergic to peanuts")
    assert "peanuts" in await block.aget([said("What is Ann allergic to?")])
    assert "peanuts" in await block.aget([said("What is Ann allergic to? " + "a page of words " * 5_000)])
    assert await block.aget([]) == ""


async def test_a_block_is_made_of_what_its_policy_says(memory):
    ann = memory.user("ann")
    await ann.add_fact("city", "Oslo")
    await ann.add_memory("Ann is allergic to peanuts")
    block = MemoryBlock(user=ann, policy=ContextPolicy(sections=["knowledge"]))
    told = await block.aget([said("What is Ann allergic to?")])
    assert "peanuts" in told and "Oslo" not in told


async def test_tool_results_stay_tool_results(block, memory):
    call = ChatMessage(role="tool", content="Rain", additional_kwargs={"tool_call_id": "c1"})
    await block.aput([said("Weather?"), ChatMessage(role="assistant", content=""), call])
    stored, _ = await memory.user("ann").session("monday").messages()
    assert [(message.role, message.tool_call_id) for message in stored] == [("user", None), ("tool", "c1")]


async def test_tool_calls_and_pictures_are_kept_with_the_messages(block, memory):
    call = ToolCallBlock(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Oslo"})
    shown = [TextBlock(text="And here?"), ImageBlock(url="https://x/y.png")]
    result = ChatMessage(role="tool", content="Rain", additional_kwargs={"tool_call_id": "c1"})
    await block.aput([ChatMessage(role="user", blocks=shown), ChatMessage(role="assistant", blocks=[call]), result])
    seen, called, answered = await memory.user("ann").session("monday").window()
    assert seen.content[1] == {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    assert called.tool_calls[0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert answered.tool_call_id == "c1"
    await block.aput([ChatMessage(role="user", blocks=shown[1:])])
    assert (await memory.user("ann").session("monday").window())[-1].content == seen.content[1:]


async def test_a_block_without_a_session_uses_the_session_of_its_memory(memory):
    block = MemoryBlock(user=memory.user("ann"), priority=2)
    for session in ("monday", "friday"):
        llama = LlamaMemory.from_defaults(
            session_id=session, token_limit=60, token_flush_size=30, chat_history_token_ratio=0.5,
            memory_blocks=[block], tokenizer_fn=words,
        )  # fmt: skip
        await llama.aput_messages([said(f"On {session} this is remark number {number}.") for number in range(12)])
    for session in ("monday", "friday"):
        stored, _ = await memory.user("ann").session(session).messages()
        assert stored and all(session in message.content for message in stored)
    with pytest.raises(ValidationError, match="session_id"):
        await block.aput([said("Where does this go?")])


async def test_a_block_that_is_too_large_loses_its_last_lines(block, memory):
    for number in range(20):
        await memory.user("ann").add_memory(f"Ann likes tea number {number} a lot")
    whole = await block.aget([said("Which tea does Ann like?")])
    shorter = await block.atruncate(whole, 40)
    assert len(shorter) <= len(whole) - 160 and shorter.endswith("</memory>")
    assert set(shorter.splitlines()) <= set(whole.splitlines())
    assert await block.atruncate(whole, 100_000) is None


@pytest.mark.parametrize("count", [None, words, lambda text: text[::5], lambda text: text[::2]])
async def test_whatever_counts_the_tokens_a_block_that_is_too_large_loses_lines_and_not_everything(
    memory, count, monkeypatch
):
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)  # LlamaIndex sets it where it counts with its own
    for number in range(20):
        await memory.user("ann").add_memory(f"Ann likes the tea from the garden with number {number} a lot")
    block, asked = MemoryBlock(user=memory.user("ann"), priority=1), said("Which tea does Ann like?")
    llama = LlamaMemory.from_defaults(session_id="monday", memory_blocks=[block], tokenizer_fn=count)
    llama.token_limit = len(llama.tokenizer_fn(await block.aget([asked]))) * 9 // 10
    await llama.aput(asked)
    told = (await llama.aget())[0].content
    assert told.startswith("<memory>") and 0 < told.count("- [") < 20


async def test_a_shortened_block_has_no_heading_without_lines(block, memory):
    await memory.user("ann").session("monday").add_message("user", "I'm Ann and I live in Porto.")
    await memory.work()
    whole = await block.aget([said("Where does Ann live?")])
    assert "## About the user" in whole and "## Remembered" in whole
    shorter = await block.atruncate(whole, 1)
    assert shorter.splitlines()[-2].startswith("- ") and "## Remembered" not in shorter


async def test_a_message_that_is_too_long_does_not_take_others_with_it(block, memory):
    answer = ChatMessage(role="assistant", content="It is about cars.")
    await block.aput([said("Read this."), said("ä" * 40_000), answer])
    stored = await memory.user("ann").session("monday").window()
    assert [message.role for message in stored] == ["user", "user", "assistant"]
    assert stored[1].content.endswith("ä\n[left out]")


class ToolCall(BaseModel):
    """A call as the models of LlamaIndex hand it on from a provider's package."""

    id: str
    function: dict[str, str]


@pytest.mark.parametrize("form", [dict, lambda call: ToolCall(**call)])
async def test_calls_beside_the_blocks_are_kept_and_an_empty_result_answers_its_call(block, memory, form):
    call = form({"id": "c1", "function": {"name": "note", "arguments": '{"level": 3}'}})
    asked = ChatMessage(role="assistant", content=None, additional_kwargs={"tool_calls": [call]})
    result = ChatMessage(role="tool", content="", additional_kwargs={"tool_call_id": "c1"})
    await block.aput([said("Note it."), asked, result])
    _, called, answered = await memory.user("ann").session("monday").window()
    assert called.tool_calls[0]["function"] == {"name": "note", "arguments": '{"level": 3}'}
    assert (answered.tool_call_id, answered.content) == ("c1", "[empty]")


def test_a_sync_program_uses_a_sync_memory():
    with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
        memory.user("ann").add_memory("Ann is allergic to peanuts")
        block = MemoryBlock(user=memory.user("ann"), session_id="monday")
        llama = LlamaMemory.from_defaults(memory_blocks=[block], tokenizer_fn=words)
        assert "peanuts" in llama.get(input="What is Ann allergic to?")[0].content
