"""Anthropic's SDK: Claude's memory tool for its tool runner, backed by the memory of a user.

    tool = AsyncMemoryTool(memory.user("ann"))
    runner = client.beta.messages.tool_runner(tools=[tool], model=..., max_tokens=..., messages=...)
    answer = await runner.until_done()

The commands are those of `recollect.adapters.claude`. One that cannot be carried out raises `ToolError`, so that the
runner tells Claude that it failed.
"""

from __future__ import annotations

from recollect.adapters import extra
from recollect.adapters.bridge import Bridge, UserHandle, checked
from recollect.adapters.claude import Refused, clear, perform
from recollect.user import User

with extra("anthropic"):
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import BetaCacheControlEphemeralParam, BetaMemoryTool20250818Command


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """For the tool runner of `anthropic.AsyncAnthropic`."""

    def __init__(self, user: UserHandle, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._user = checked(user, "user")
        self._bridge = Bridge()

    async def _perform(self, command: BetaMemoryTool20250818Command) -> str:
        return await self._bridge.wait(self._user, lambda user: _performed(user, command))

    view = create = str_replace = insert = delete = rename = _perform

    async def clear_all_memory(self) -> str:
        """Forget the files of this user, and nothing else."""
        return await self._bridge.wait(self._user, clear)


class MemoryTool(BetaAbstractMemoryTool):
    """For the tool runner of `anthropic.Anthropic`, with a handle of `recollect.sync.Memory`."""

    def __init__(self, user: UserHandle, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._user = checked(user, "user")
        self._bridge = Bridge()

    def _perform(self, command: BetaMemoryTool20250818Command) -> str:
        return self._bridge.run(self._user, lambda user: _performed(user, command))

    view = create = str_replace = insert = delete = rename = _perform

    def clear_all_memory(self) -> str:
        """Forget the files of this user, and nothing else."""
        return self._bridge.run(self._user, clear)


async def _performed(user: User, command: BetaMemoryTool20250818Command) -> str:
    try:
        return await perform(user, vars(command))
    except Refused as refusal:
        raise ToolError(str(refusal)) from refusal
