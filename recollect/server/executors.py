"""What answers a turn: one executor for each (org, user, agent), kept for a while.

An executor first reads memory (`prepare`), before any part of the turn is stored, so that a question
does not find itself; then it answers in pieces.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from recollect.errors import NotFound, Unavailable
from recollect.interfaces.agent import MemoryAgent
from recollect.models import ToolCall
from recollect.policies.ties import QUOTES
from recollect.server.agents import DEFAULT, Agent
from recollect.server.alive import Alive
from recollect.server.metrics import Metrics
from recollect.session import Session
from recollect.user import User

if TYPE_CHECKING:
    from recollect.context import Context

LIFE_S = 30 * 60.0
"""How long an idle executor is kept: about the length of a conversation."""
EXECUTORS_MAX = 1_000
"""How many executors are kept; beyond that, the least recently used is evicted."""
SESSIONS_MAX = 10_000
"""How many sessions are counted as alive; the count never goes above this."""

MayAdd = Callable[[str], Awaitable[None]]

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn before it is answered: its context, and what the executor needs to answer."""

    context: Context
    ready: str | None = None
    quotes: tuple[str, ...] = ()
    owner: User | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The labels of the reply."""
        return {QUOTES: list(self.quotes)} if self.quotes else {}


class Executor(Protocol):
    """Answers the turns of one user."""

    async def prepare(self, chat: Session, text: str) -> Prepared:
        """Read what the answer needs, without writing anything."""
        ...

    def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        """The answer, piece by piece; closed when nobody is listening any more."""
        ...


class Tools(Protocol):
    """The tools that a model may call on its own."""

    described: list[dict[str, Any]]

    async def call(self, owner: User, call: ToolCall) -> str:
        """The result of a tool call for this user, as text for the model."""
        ...


class FromMemory:
    """Answers from memory, without a model: it quotes what was said, and when."""

    def __init__(self, agent: Agent) -> None:
        self._agent = MemoryAgent(agent.policy, max_tokens=agent.context_tokens)

    async def prepare(self, chat: Session, text: str) -> Prepared:
        found = await self._agent.answer(chat, text)
        return Prepared(found.context, found.text, found.quotes)

    async def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        for word in _WORDS.findall(prepared.ready or ""):
            yield word


class Executors:
    """The executors that are alive, and the sessions they answer in."""

    def __init__(
        self,
        agents: dict[str, Agent],
        *,
        life_s: float = LIFE_S,
        most: int = EXECUTORS_MAX,
        metrics: Metrics | None = None,
        may_add: MayAdd | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`may_add` is called with the org before a model's tool adds a memory."""
        self._may_add = may_add
        figures = metrics or Metrics()
        self._agents = agents
        self._held: Alive[Executor] = Alive(
            life_s, most, ended=partial(figures.observe, "executor_life_seconds"), timer=timer
        )
        self._sessions: Alive[None] = Alive(
            life_s, SESSIONS_MAX, ended=partial(figures.observe, "session_life_seconds"), timer=timer
        )
        self._endpoints: dict[str, Any] = {}
        self.states = {name: "not asked yet" for name, agent in agents.items() if agent.url}
        """The outcome of the last request to the endpoint of each agent that has a model."""

    @property
    def alive(self) -> int:
        """How many executors are alive."""
        return len(self._held)

    @property
    def sessions_alive(self) -> int:
        """How many sessions had a turn lately."""
        return len(self._sessions)

    def of(self, org: str, user: str, agent: str, session: str = "") -> Executor:
        """Return the executor for a user's turns with an agent; without a name, with the default one."""
        name = agent or DEFAULT
        if name not in self._agents:
            raise NotFound("no such agent; define it as [agents.NAME] in recollect.toml", field="agent")
        self._sessions.use((org, user, session), lambda: None)
        return self._held.use((org, user, name), lambda: self._made(self._agents[name], org))

    async def close(self) -> None:
        """Drop all executors and close the connections to endpoints."""
        self._held.clear()
        self._sessions.clear()
        for endpoint in self._endpoints.values():
            await endpoint.disconnect()

    def _made(self, agent: Agent, org: str) -> Executor:
        if not agent.url:
            return FromMemory(agent)
        module = endpoint_module()
        if agent.name not in self._endpoints:
            self._endpoints[agent.name] = module.open_endpoint(agent)
        told = partial(self.states.__setitem__, agent.name)
        executor: Executor = module.FromModel(agent, self._endpoints[agent.name], self._tools_of(agent, org), told=told)
        return executor

    def _tools_of(self, agent: Agent, org: str) -> Tools | None:
        if not agent.tools:
            return None
        may_add = None if self._may_add is None else partial(self._may_add, org)
        tools: Tools = import_module("recollect.server.agent_tools").AgentTools(agent, may_add)
        return tools


def endpoint_module() -> Any:
    """The module that talks to endpoints, loaded on demand because it needs an extra."""
    try:
        return import_module("recollect.server.endpoint")
    except ModuleNotFoundError as error:
        raise Unavailable(
            'a model at an endpoint needs httpx: pip install "recollect[openai]"', field="agent"
        ) from error
