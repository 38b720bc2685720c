"""What an agent's model may do on its own: the tools that the agent's table names, on the memory of one user.

A tool sees only the memory of the user who is talking: no argument names a user.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from recollect.interfaces.tools import TOOLS, Caller, called, schema_of
from recollect.models import ToolCall
from recollect.server.agents import Agent
from recollect.user import User

VIA = "chat"
"""The label of what a model adds with a tool."""


class AgentTools:
    """The tools of one agent. `may_add` is called before one of them adds a memory."""

    def __init__(self, agent: Agent, may_add: Callable[[], Awaitable[None]] | None = None) -> None:
        self._agent = agent
        self._may_add = may_add
        self.described = [_described(name) for name in agent.tools]

    async def call(self, owner: User, call: ToolCall) -> str:
        """Return the result of a tool as text for the model; a mistake in the call is reported in the same way."""
        if call.name not in self._agent.tools:
            return f"There is no such tool. Available: {', '.join(self._agent.tools)}."
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            return "The arguments are not valid JSON."
        caller = Caller(owner, self._agent.name, via=VIA, before_adding=self._may_add)
        result = await called(TOOLS[call.name], caller, arguments)
        return result if isinstance(result, str) else result.text()


def _described(name: str) -> dict[str, Any]:
    tool = TOOLS[name]
    told = {"name": name, "description": tool.use, "parameters": schema_of(tool.takes)}
    return {"type": "function", "function": told}
