"""Every adapter sees the same memory: what one writes, all the others and the memory itself read."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ImageUrl,
    ModelRequest,
    ModelResponse,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from recollect.adapters.langchain import ChatMessageHistory, Retriever
from recollect.adapters.langgraph import Store
from recollect.adapters.llama_index import MemoryBlock
from recollect.adapters.openai_agents import Session
from recollect.adapters.pydantic_ai import Store as Conversations


@pytest.fixture
async def ann(memory):
    return memory.user("ann")


async def test_a_turn_of_the_openai_sdk_is_read_by_langchain(ann):
    await Session(ann, "monday").add_items(
        [
            {"role": "user", "content": "Will it rain?"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
            {"id": "m", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
        ]
    )  # fmt: skip
    human, call, result, answer = await ChatMessageHistory(ann.session("monday")).aget_messages()
    assert (human.type, human.content, answer.type, answer.content) == ("human", "Will it rain?", "ai", "Yes.")
    assert call.tool_calls == [{"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}]
    assert (result.tool_call_id, result.content) == ("c1", "Rain")


async def test_a_turn_of_langchain_is_read_by_the_openai_sdk(ann):
    calls = [{"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}]
    await ChatMessageHistory(ann.session("monday")).aadd_messages(
        [HumanMessage("Will it rain?"), AIMessage("", tool_calls=calls), ToolMessage("Rain", tool_call_id="c1")]
    )
    assert await Session(ann, "monday").get_items() == [
        {"role": "user", "content": "Will it rain?"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
    ]


SHOWN = "https://example.com/boat.png"
SHOWERS = {
    "openai": lambda ann: Session(ann, "monday").add_items(
        [{"role": "user", "content": [{"type": "input_text", "text": "My boat."},
                                      {"type": "input_image", "image_url": SHOWN, "detail": "low"}]}]
    ),
    "langchain": lambda ann: ChatMessageHistory(ann.session("monday")).aadd_messages(
        [HumanMessage([{"type": "text", "text": "My boat."}, {"type": "image", "url": SHOWN}])]
    ),
    "pydantic": lambda ann: Conversations(ann).save(
        Conversation(
            conversation_id="monday", messages=[ModelRequest([UserPromptPart(["My boat.", ImageUrl(SHOWN)])])]
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("shower", SHOWERS)
async def test_a_picture_shown_in_one_framework_is_seen_in_the_others_and_in_contexts(ann, shower):
    await SHOWERS[shower](ann)
    (item,) = await Session(ann, "monday").get_items()
    (message,) = await ChatMessageHistory(ann.session("monday")).aget_messages()
    prompt = (await Conversations(ann).load("monday")).messages[0].parts[0]
    recent = (await ann.session("monday").get_context("Which boat?")).recent
    for seen in (item["content"], message.content, prompt.content, recent[0]["content"]):
        assert SHOWN in str(seen) and "My boat." in str(seen) and len(seen) == 2


@pytest.mark.parametrize("address", ["data:image/png;base64,aGVsbG8=", "https://x/" + "y" * 5_000])
async def test_a_picture_as_data_or_with_an_endless_address_stays_with_its_framework(ann, address):
    said = HumanMessage([{"type": "text", "text": "My boat."}, {"type": "image_url", "image_url": {"url": address}}])
    await ChatMessageHistory(ann.session("monday")).aadd_messages([said])
    assert [each.content for each in await ChatMessageHistory(ann.session("monday")).aget_messages()] == [said.content]
    assert await Session(ann, "monday").get_items() == [{"role": "user", "content": "My boat."}]


async def test_items_only_one_framework_can_read_are_invisible_to_the_others(ann):
    await Session(ann, "monday").add_items(
        [
            {"role": "user", "content": "Will it rain?"},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "z" * 30_000},
            {"type": "web_search_call", "id": "w", "status": "completed"},
            {"role": "assistant", "content": "[maybe]"},
        ]
    )
    conversations = Conversations(ann)
    conversation = await conversations.load("monday")
    conversation.messages.append(ModelResponse([ThinkingPart("hm", signature="s")]))
    await conversations.save(conversation)
    await conversations.branch("monday", at=2, expected_revision=conversation.revision)  # is recorded in a message
    history = ChatMessageHistory(ann.session("monday"))
    assert [message.content for message in await history.aget_messages()] == ["Will it rain?", "[maybe]"]
    assert len((await conversations.load("monday")).messages) == 2
    await history.aadd_messages([AIMessage("")])
    assert len(await Session(ann, "monday").get_items()) == 4
    assert (await history.aget_messages())[-1] == AIMessage("")
    assert await Session(ann, "monday").pop_item() == {"role": "assistant", "content": "[maybe]"}
    assert (await conversations.load("monday")).messages[0].parts[0].content == "Will it rain?"


async def test_a_result_that_is_not_text_is_shown_as_json(ann):
    calls = ModelResponse([ToolCallPart("clock", {}, "c1")])
    said = [ModelRequest([UserPromptPart("Time?")]), calls, ModelRequest([ToolReturnPart("clock", {"hour": 9}, "c1")])]
    await Conversations(ann).save(Conversation(conversation_id="x", messages=said))
    assert (await Session(ann, "x").get_items())[-1]["output"] == '{"hour": 9}'
    assert (await Conversations(ann).load("x")).messages[-1].parts[0].content == {"hour": 9}


async def test_what_any_adapter_stores_all_the_others_find(ann, memory, clock):
    store = Store(memory, user="ann", clock=clock)
    await store.aput(("notes",), "tea", {"text": "Ann drinks oolong tea"})
    await Session(ann, "monday").add_items([{"role": "user", "content": "My bicycle is called Rocinante"}])
    await ChatMessageHistory(ann.session("tuesday")).aadd_messages([HumanMessage("The cat Miso sleeps all day")])
    for question, answer in (
        ("oolong tea", "Ann drinks oolong tea"),
        ("bicycle called", "My bicycle is called Rocinante"),
        ("cat sleeps", "The cat Miso sleeps all day"),
    ):
        assert (await ann.search_memory(question))[0].content == answer
        assert (await Retriever(user=ann).ainvoke(question))[0].page_content == answer
        block = await MemoryBlock(user=ann, session_id="friday").aget([_asked(question)])
        assert answer in block
        assert answer in (await ann.session("friday").get_context(question)).system


async def test_erasing_a_user_leaves_nothing_for_any_adapter(ann, memory, clock):
    store = Store(memory, user="ann", clock=clock)
    await store.aput(("notes",), "tea", {"text": "Ann drinks oolong tea"})
    await Session(ann, "monday").add_items([{"role": "user", "content": "My bicycle is called Rocinante"}])
    await ann.erase()
    assert await store.asearch(()) == []
    assert await Session(ann, "monday").get_items() == []
    assert await ChatMessageHistory(ann.session("monday")).aget_messages() == []


async def test_adapters_read_an_export_after_it_is_imported(ann, memory, clock):
    items = [{"type": "reasoning", "id": "r", "summary": []}, {"role": "user", "content": "My cat is Miso"}]
    await Session(ann, "monday").add_items(items)
    await Store(memory, user="ann", clock=clock).aput(("notes",), "tea", {"text": "oolong", "stars": 5})
    lines = await ann.export()
    bob = memory.user("bob")
    await bob.import_records(lines[1:])
    assert await Session(bob, "monday").get_items() == items
    assert (await Store(memory, user="bob", clock=clock).aget(("notes",), "tea")).value["stars"] == 5


async def test_what_the_typescript_package_stores_beside_a_message_is_not_shown_as_metadata(ann):
    shell = '{"value":{"id":"m1","parts":[{"type":"text","text":""}]},"texts":[["parts",0,"text"]]}'
    labels = {"ai_sdk": shell, "topic": "cats"}
    await ann.session("monday").add_message("user", "The cat Miso sleeps all day", metadata=labels)
    (found,) = await Retriever(user=ann).ainvoke("cat sleeps")
    assert found.metadata["topic"] == "cats" and "ai_sdk" not in found.metadata


def _asked(text):
    return ChatMessage(role="user", content=text)


LONG = [f"{n} " + "long and loud " * 2_000 for n in range(60)]


async def test_what_exceeds_one_commit_goes_into_several(ann, memory, clock):
    await ChatMessageHistory(ann.session("langchain")).aadd_messages(
        [HumanMessage([{"type": "text", "text": text}, {"type": "text", "text": "."}]) for text in LONG]
    )
    await Session(ann, "openai").add_items([{"role": "user", "content": text} for text in LONG])
    await MemoryBlock(user=ann, session_id="llama")._aput([ChatMessage(content=text) for text in LONG])
    for session in ("langchain", "openai", "llama"):
        messages, _ = await ann.session(session).messages()
        texts = [each.content if isinstance(each.content, str) else each.content[0]["text"] for each in messages]
        assert texts == LONG


async def test_a_history_made_in_a_worker_thread_is_the_same_history(ann):
    def in_a_thread() -> list:
        history = ChatMessageHistory(ann.session("monday"))
        history.add_messages([HumanMessage("I park on level 3.")])
        return history.messages

    assert [message.content for message in await asyncio.to_thread(in_a_thread)] == ["I park on level 3."]
    assert len(await ann.session("monday").window()) == 1


PICTURE = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 30_000, "detail": "auto"}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E" * 20_000}


async def test_what_only_one_framework_can_read_takes_no_room_in_a_context(ann):
    session = Session(ann, "monday")
    await session.add_items([{"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, PICTURE]}])
    await session.add_items([SEALED, {"role": "assistant", "content": "A red Fiat."}])
    context = await ann.session("monday").get_context("And its colour?", max_tokens=500)
    assert [message["content"] for message in context.recent] == [
        [{"type": "text", "text": "What is it?"}],
        "A red Fiat.",
    ]
    read = await ChatMessageHistory(ann.session("monday")).aget_messages()
    assert [message.content for message in read] == [[{"type": "text", "text": "What is it?"}], "A red Fiat."]


IN_PARTS = [
    {"type": "text", "text": "I look it up."},
    {"type": "tool_call", "id": "c1", "function": {"name": "search", "arguments": '{"for": "Fiat"}'}},
    {"type": "tool_call", "id": "c2", "function": {"name": "python", "arguments": "[1, 2]"}},
    {"type": "tool_result", "tool_call_id": "c1", "content": "red"},
    {"type": "tool_result", "tool_call_id": "c2", "content": [{"type": "text", "text": "3"}]},
    {"type": "text", "text": "It is red."},
]


async def test_calls_and_results_among_the_parts_of_a_message_reach_every_model(ann):
    chat = ann.session("monday")
    await chat.add_message("user", "Which colour?")
    await chat.add_message("assistant", IN_PARTS)
    context = await chat.get_context("And now?")
    assert [message["role"] for message in context.recent] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in context.recent[1]["tool_calls"]] == ["c1", "c2"]
    assert [message.get("tool_call_id") for message in context.recent[2:4]] == ["c1", "c2"]
    read = await ChatMessageHistory(chat).aget_messages()
    assert [message.type for message in read] == ["human", "ai", "tool", "tool", "ai"]
    assert [call["args"] for call in read[1].tool_calls] == [{"for": "Fiat"}, {"arguments": "[1, 2]"}]
    assert len({message.id for message in read if message.id}) == 2, "an id is given to one message only"
    items = await Session(ann, "monday").get_items()
    assert [item.get("call_id") for item in items] == [None, None, "c1", "c2", "c1", "c2", None]
    assert [item.get("output") for item in items[4:6]] == ["red", "3"]


async def test_a_result_that_names_no_call_is_kept_but_given_to_no_model(ann):
    chat = ann.session("monday")
    await chat.add_message("user", "Read the page.")
    await chat.add_message("tool", "The page is about oboes.")
    await chat.add_message("assistant", "It is about oboes.")
    assert [message.type for message in await ChatMessageHistory(chat).aget_messages()] == ["human", "ai"]
    assert [item["role"] for item in await Session(ann, "monday").get_items()] == ["user", "assistant"]
    conversation = await Conversations(ann).load("monday")
    assert [message.kind for message in conversation.messages] == ["request", "response"]
    assert [message["role"] for message in (await chat.get_context("And?")).recent] == ["user", "assistant"]
    assert "The page is about oboes." in [hit.content for hit in await ann.search_memory("page about oboes")]
