"""What answers a turn: one executor for each (org, user, agent), kept for a while.

An executor reads memory first (`prepare`), before anything of the turn is stored, so that a question
does not find itself; then it answers in pieces.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from recollect.context import Context
from recollect.errors import NotFound, Unavailable
from recollect.interfaces.agent import MemoryAgent
from recollect.memory import Session
from recollect.privacy import QUOTES
from recollect.server.agents import DEFAULT, Agent

LIFE_S = 30 * 60.0
"""How long an executor that nobody asks is kept: about a conversation."""
EXECUTORS_MAX = 1_000
"""Executors that are kept; of more, the one that was asked the longest ago goes."""

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn before it is answered: what is known for it, and what the executor needs for the answer."""

    context: Context
    ready: str | None = None
    quotes: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[str, Any]:
        """The labels of the reply."""
        return {QUOTES: list(self.quotes)} if self.quotes else {}


class Executor(Protocol):
    """What can answer turns of one user."""

    async def prepare(self, chat: Session, text: str) -> Prepared:
        """Read what the answer needs. Nothing is written."""
        ...

    def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        """The answer, piece by piece; closed when nobody listens any more."""
        ...


class FromMemory:
    """Answers from memory, without a model: it quotes what was said, and when."""

    async def prepare(self, chat: Session, text: str) -> Prepared:
        found = await MemoryAgent().answer(chat, text)
        return Prepared(found.context, found.text, found.quotes)

    async def answer(self, prepared: Prepared) -> AsyncGenerator[str, None]:
        for word in _WORDS.findall(prepared.ready or ""):
            yield word


@dataclass(slots=True)
class _Held:
    executor: Executor
    used_at: float


class Executors:
    """The executors that are alive."""

    def __init__(
        self,
        agents: dict[str, Agent],
        *,
        life_s: float = LIFE_S,
        most: int = EXECUTORS_MAX,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agents = agents
        self._life_s = life_s
        self._most = most
        self._timer = timer
        self._held: OrderedDict[tuple[str, str, str], _Held] = OrderedDict()
        self._endpoints: dict[str, Any] = {}

    @property
    def alive(self) -> int:
        """How many there are."""
        self._retire()
        return len(self._held)

    def of(self, org: str, user: str, agent: str) -> Executor:
        """The executor for a user's turns with an agent; without a name, with the default one."""
        name = agent or DEFAULT
        if name not in self._agents:
            raise NotFound("no such agent; [agents.NAME] in recollect.toml makes one", field="agent")
        self._retire()
        place = (org, user, name)
        held = self._held.pop(place, None) or _Held(self._made(self._agents[name]), 0.0)
        held.used_at = self._timer()
        self._held[place] = held
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return held.executor

    async def close(self) -> None:
        """Let go of connections to endpoints."""
        self._held.clear()
        for endpoint in self._endpoints.values():
            await endpoint.disconnect()

    def _retire(self) -> None:
        """The order is that of use, so those whose time is over stand first."""
        oldest = self._timer() - self._life_s
        while self._held and next(iter(self._held.values())).used_at < oldest:
            self._held.popitem(last=False)

    def _made(self, agent: Agent) -> Executor:
        if not agent.url:
            return FromMemory()
        module = endpoint_module()
        if agent.name not in self._endpoints:
            self._endpoints[agent.name] = module.open_endpoint(agent)
        executor: Executor = module.FromModel(agent, self._endpoints[agent.name])
        return executor


def endpoint_module() -> Any:
    """What talks to endpoints, loaded where it is wanted: it needs an extra."""
    try:
        return import_module("recollect.server.endpoint")
    except ModuleNotFoundError as error:
        raise Unavailable(
            "a model at an endpoint needs httpx: pip install 'recollect[openai]'", field="agent"
        ) from error
