"""Whose memories a command is about: the four options that most commands have in common, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from recollect.interfaces.options import Json, Org, Url, Who, ask, for_user, of_user, owner_of
from recollect.memory import Memory
from recollect.owner import Owner
from recollect.user import User

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Whose:
    """Where the memories are, whose they are, and how to print them: a parameter `whose` stands for these options."""

    url: Url = None
    org: Org = "default"
    user: Who = "me"
    as_json: Json = False

    def look(self, step: Callable[[User], Awaitable[T]]) -> T:
        """Do one thing with the memories of that user; a missing file is not created."""
        return for_user(self.url, self.org, self.user, step)

    def ask(self, step: Callable[[User], Awaitable[T]]) -> T:
        """The same for questions: if much in the file waits to be read, that is said beside the answer."""
        return ask(self.url, self.org, self.user, step)

    def of(self, memory: Memory) -> User:
        """The handle of that user."""
        return memory.user(self.user, org=self.org)

    def owner(self, memory: Memory, org_wide: bool) -> Owner:
        """The handle of that user, or of what all users of the organisation share."""
        return owner_of(memory, self.org, self.user, org_wide)

    @property
    def in_words(self) -> str:
        """Whose memories were looked for and where, for when none were found."""
        return of_user(self.user, self.url)
