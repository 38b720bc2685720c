"""LlamaIndex: a memory block that remembers what falls out of the short-term memory, and much more.

    memory = Memory.from_defaults(session_id="monday", memory_blocks=[MemoryBlock(user=recollect.user("ann"))])

The block returns the context for what the user said last, from all of the user's sessions and layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, UserHandle
from recollect.adapters.verbatim import Call, add_what_fits, as_query, may_be_id
from recollect.context_policy import ContextPolicy
from recollect.errors import ValidationError
from recollect.user import User

with extra("llama-index"):
    import llama_index.core
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, ToolCallBlock
    from llama_index.core.memory import BaseMemoryBlock
    from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

ROLES = {
    MessageRole.USER: "user",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}
"""Every other role is some kind of assistant."""
SPARE, CHARACTERS_A_TOKEN = 1.1, 8
"""How much more than asked for a block loses if LlamaIndex's tokenizer counts it, and how long a token may be if the
application has its own, which a block does not know: one that counts words, say. A block that gets too little shorter
is dropped whole, so it had better get too short."""
CLOSING = "</memory>"


class MemoryBlock(BaseMemoryBlock[str]):
    """What Recollect remembers, as a block of LlamaIndex's memory.

    What leaves the short-term memory is stored as messages of the session.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = Field(default="Recollect", description="The name of the memory block.")
    user: UserHandle = Field(description="The user whose memory it is.")
    session_id: str | None = Field(
        default=None, description="The session that messages are stored in; by default that of the memory."
    )
    max_tokens: int = Field(default=2_000, description="How many tokens the block may take.")
    policy: ContextPolicy = Field(default_factory=ContextPolicy, description="What the block is made of.")
    _bridge: Bridge = PrivateAttr(default_factory=Bridge)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        question = _question(messages or ())
        if question is None:
            return ""
        return await self._bridge.wait(self.user, lambda user: self._context(user, question))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        by_session: dict[str, list[dict[str, Any]]] = {}
        for message in messages:
            given = _to_stored(message)
            if given is not None:
                by_session.setdefault(self._session_of(message), []).append(given)
        await self._bridge.wait(self.user, lambda user: _add(user, by_session))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The block without its last lines; None if nothing but its frame would be left."""
        lines = content.removesuffix(CLOSING).splitlines()
        count = llama_index.core.global_tokenizer
        surplus = tokens_to_truncate * SPARE
        while lines and (surplus > 0 or not lines[-1].startswith("- ")):  # a heading does not stay without its lines
            line = lines.pop()
            surplus -= len(count(line)) if count else len(line) / CHARACTERS_A_TOKEN
        said = any(line.startswith("- ") for line in lines)
        return "\n".join([*lines, CLOSING]) if said else None

    async def _context(self, user: User, question: str) -> str:
        return (await user.get_context(question, max_tokens=self.max_tokens, policy=self.policy)).system

    def _session_of(self, message: ChatMessage) -> str:
        session = self.session_id or message.additional_kwargs.get("session_id")
        if not isinstance(session, str):
            raise ValidationError("give a session to the block or to its memory", field="session_id")
        return session


async def _add(user: User, by_session: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    # LlamaIndex has let go of the messages and does not send them again, so none may fail because of another.
    for session, given in by_session.items():
        await add_what_fits(user.session(session), given)


def _question(messages: Sequence[ChatMessage]) -> str | None:
    """What the user said last."""
    said = (message.content for message in reversed(messages) if message.role == MessageRole.USER)
    return next((as_query(text) for text in said if text and text.strip()), None)


def _to_stored(message: ChatMessage) -> dict[str, Any] | None:
    """A message as the arguments of `add_message`; None if it neither says nor calls anything."""
    role, text = ROLES.get(message.role, "assistant"), message.content or ""
    calls, pictures = _calls(message), _pictures(message)
    given: dict[str, Any] = {"role": role, "content": text if text.strip() else ""}
    if pictures:
        given["content"] = [*([{"type": "text", "text": text}] if text.strip() else []), *pictures]
    if calls and role == "assistant":
        given["tool_calls"] = [call.to_openai() for call in calls]
    call_id = message.additional_kwargs.get("tool_call_id")
    if role == "tool":
        given["content"] = given["content"] or "[empty]"  # a result that says nothing still answers its call
    if role == "tool" and may_be_id(call_id):
        given["tool_call_id"] = call_id
    return given if given["content"] or "tool_calls" in given else None


def _calls(message: ChatMessage) -> list[Call]:
    """The tools that a message calls, each with an id that its result will name."""
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock) and may_be_id(block.tool_call_id)]
    calls = {str(block.tool_call_id): (block.tool_name, block.tool_kwargs) for block in blocks}
    for call in message.additional_kwargs.get("tool_calls") or ():  # where many models of LlamaIndex put them
        given = call if isinstance(call, Mapping) else call.model_dump() if isinstance(call, BaseModel) else {}
        function = given.get("function")
        if may_be_id(given.get("id")) and isinstance(function, Mapping):
            calls.setdefault(given["id"], (str(function.get("name")), function.get("arguments") or "{}"))
    return [Call(id, name, _arguments(given)) for id, (name, given) in calls.items()]


def _arguments(given: dict[str, Any] | str) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)


def _pictures(message: ChatMessage) -> list[dict[str, Any]]:
    """The pictures given by URL; one that comes as bytes is not text to remember."""
    addresses = [str(block.url) for block in message.blocks if isinstance(block, ImageBlock) and block.url]
    return [{"type": "image_url", "image_url": {"url": url}} for url in addresses if not url.startswith("data:")]
