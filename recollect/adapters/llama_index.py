"""LlamaIndex: a memory block that remembers what falls out of the short-term memory, and much more.

    memory = Memory.from_defaults(memory_blocks=[MemoryBlock(user=recollect.user("ann"), session_id="monday")])

The block gives the context of what the user said last, from all of the user's sessions and layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import ConfigDict, Field, PrivateAttr

from recollect.adapters.bridge import Bridge, UserHandle
from recollect.adapters.verbatim import in_pieces, may_be_id
from recollect.memory import User

ROLES = {
    MessageRole.USER: "user",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}
"""Every other role is some kind of assistant."""
CHARACTERS_A_TOKEN = 4
CLOSING = "</memory>"


class MemoryBlock(BaseMemoryBlock[str]):
    """What Recollect remembers, as a block of LlamaIndex's memory.

    What leaves the short-term memory is stored as messages of the session.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = Field(default="Recollect", description="The name of the memory block.")
    user: UserHandle = Field(description="The user whose memory it is.")
    session_id: str = Field(description="The session that messages are stored in.")
    max_tokens: int = Field(default=2_000, description="How many tokens the block may take.")
    _bridge: Bridge = PrivateAttr(default_factory=Bridge)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        question = _question(messages or ())
        if question is None:
            return ""
        return await self._bridge.wait(self.user, lambda user: self._context(user, question))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        given = [_to_stored(message) for message in messages if (message.content or "").strip()]
        await self._bridge.wait(self.user, lambda user: self._add(user, given))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The block without its last lines; None when nothing but its frame would be left."""
        lines = content.removesuffix(CLOSING).splitlines()
        room = len(content) - tokens_to_truncate * CHARACTERS_A_TOKEN
        while lines and sum(len(line) + 1 for line in lines) + len(CLOSING) > room:
            lines.pop()
        said = any(line.startswith("- ") for line in lines)
        return "\n".join([*lines, CLOSING]) if said else None

    async def _context(self, user: User, question: str) -> str:
        return (await user.get_context(question, max_tokens=self.max_tokens)).system

    async def _add(self, user: User, given: Sequence[dict[str, Any]]) -> None:
        await in_pieces(user.session(self.session_id).add_messages, given)


def _question(messages: Sequence[ChatMessage]) -> str | None:
    """What the user said last."""
    said = (message.content for message in reversed(messages) if message.role == MessageRole.USER)
    return next((text for text in said if text and text.strip()), None)


def _to_stored(message: ChatMessage) -> dict[str, Any]:
    role = ROLES.get(message.role, "assistant")
    given: dict[str, Any] = {"role": role, "content": message.content}
    call_id = message.additional_kwargs.get("tool_call_id")
    return given | {"tool_call_id": call_id} if role == "tool" and may_be_id(call_id) else given
