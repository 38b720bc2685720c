"""Whose memories a command is about: the options that most commands have in common, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from recollect.interfaces.options import Json, Org, OrgWide, Url, Who, catch_up, file_of, look, place, run
from recollect.interfaces.output import complain, one_line, plural
from recollect.memory import Memory
from recollect.owner import Owner
from recollect.user import User

T = TypeVar("T")
H = TypeVar("H", bound=Owner)

WAITS_TOLD = 10
"""So many waiting jobs are more than what other programs are just doing: an import was stopped, or is not over."""


class _Somebody(Generic[H]):
    """How commands open the memory and do one thing with somebody's memories: each `step` gets their handle."""

    url: str | None
    org: str
    user: str

    def of(self, memory: Memory) -> H:
        """The handle of whoever is meant."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Whose memories they are, as people say it."""
        return one_line(self.user, 60)

    @property
    def in_words(self) -> str:
        """Whose memories were looked for and where, for when none were found; others may have some."""
        return f"{self.name} in {place(self.url)}. `recollect users` lists who has memories."

    def run(self, step: Callable[[H], Awaitable[T]]) -> T:
        """Do one thing with their memories; a missing file is created."""
        return run(self.url, lambda memory: step(self.of(memory)))

    def look(self, step: Callable[[H], Awaitable[T]]) -> T:
        """The same for commands that make no sense without memories: a missing file is not created."""
        return look(self.url, lambda memory: step(self.of(memory)))

    def tell(self, step: Callable[[H], Awaitable[T]]) -> T:
        """Like `run`, for what is stated: unless a worker elsewhere sees to it, it is found by its meaning at once."""

        async def told(memory: Memory) -> T:
            done = await step(self.of(memory))
            await catch_up(memory)
            return done

        return run(self.url, told)

    def ask(self, step: Callable[[H], Awaitable[T]]) -> T:
        """Like `look`, for questions: if much in the file waits to be read, that is said beside the answer."""
        waiting = 0

        async def answered(memory: Memory) -> T:
            nonlocal waiting
            answer = await step(self.of(memory))
            if file_of(self.url) is not None:  # on a server the jobs are those of everybody
                survey = await memory.survey()
                waiting = survey.jobs_waiting + survey.jobs_running
            return answer

        answer = look(self.url, answered)
        if waiting >= WAITS_TOLD:
            complain(
                f"{plural(waiting, 'job')} waiting: what was stored lately is found by its words, but not yet by its "
                "meaning, and facts may be missing. `recollect worker --once` catches up"
            )
        return answer


@dataclass(frozen=True)
class Whose(_Somebody[User]):
    """Where the memories are, whose they are, and how to print them: a parameter `whose` stands for these options."""

    url: Url = None
    org: Org = "default"
    user: Who = "me"
    as_json: Json = False

    def of(self, memory: Memory) -> User:
        return memory.user(self.user, org=self.org)


@dataclass(frozen=True)
class WhoseOrShared(_Somebody[Owner]):
    """The same with one more option: what all users of the organisation share, instead of one user's own."""

    org_wide: OrgWide = False
    url: Url = None
    org: Org = "default"
    user: Who = "me"
    as_json: Json = False

    def of(self, memory: Memory) -> Owner:
        return memory.org(self.org) if self.org_wide else memory.user(self.user, org=self.org)

    @property
    def name(self) -> str:
        return f"everybody in {one_line(self.org, 60)}" if self.org_wide else super().name

    @property
    def in_words(self) -> str:
        return f"{self.name} in {place(self.url)}." if self.org_wide else super().in_words
