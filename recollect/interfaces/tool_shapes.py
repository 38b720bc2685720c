"""What the tools of a model take and return: typed, bounded, and as text that a model can read.

Recalled text was written by others: each piece is made safe, and every result with any of it says that it is data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from recollect.interfaces.quoting import NEAR
from recollect.layers import SEARCHED_LAYERS
from recollect.policies.fencing import OPENING, fenced, shown
from recollect.records import FITS
from recollect.validate import FACT_VALUE_BYTES, LEARNING_BYTES, LEARNING_TYPES, LIMITS

NOTICE = OPENING.partition("\n")[2]
"""What the fence says, for clients that show a model the fields of a result and not its text."""
HITS_MAX, PAGE_MAX = 20, 50
"""Entries in one result: with long texts cut, it stays under about 40,000 characters."""
PAGES_MAX, CURSOR_CHARS = 1_000, 1_000
"""The last page of a profile, and the longest cursor."""
FORGOTTEN_MAX = 20
"""Memories that one call may forget, so that a mistaken model does little harm."""
TOKENS_LEAST, TOKENS_DEFAULT, TOKENS_MAX = 200, 4_000, 32_000
"""Tokens of a context: below the least nothing fits, and above the most nobody reads."""


# ── What they take ───────────────────────────────────────────────────────────────────────────────

Name = Annotated[str, Field(min_length=1, max_length=LIMITS.id_chars)]
Text = Annotated[str, Field(min_length=1, max_length=LIMITS.text_bytes)]
Question = Annotated[str, Field(min_length=1, max_length=LIMITS.query_bytes)]
Value = Annotated[str, Field(min_length=1, max_length=FACT_VALUE_BYTES)]
Share = Annotated[float, Field(ge=0, le=1)]
Key = Annotated[Name, Field(description="Key of the fact, as get_profile lists it.")]
Page = Annotated[int, Field(ge=1, le=PAGES_MAX, description="1 is the first; `next_page` in a result is the next one.")]
PageSize = Annotated[int, Field(ge=1, le=PAGE_MAX, description="Entries on one page.")]
After = Annotated[
    str | None,
    Field(min_length=1, max_length=CURSOR_CHARS, description="`after` of the page before; leave it out at first."),
]


class Arguments(BaseModel):
    """Exactly these arguments, of exactly these types: a guess of ours would be a wrong memory."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AddMemory(Arguments):
    content: Text = Field(description="One statement that is understood on its own, in the user's language.")
    importance: Share | None = Field(None, description="0 trivial, 1 vital. Leave it out unless the user says so.")
    said_by: Literal["user", "other"] = Field(
        "user", description="`other` if it comes from a web page, a file, a tool or another person, not from the user."
    )
    only_new: bool = Field(False, description="If it is already stored, fail with `Conflict` and change nothing.")


class ToldMessage(Arguments):
    role: Literal["user", "assistant", "tool"] = Field(description="`tool` for what a tool or a page said.")
    content: Text = Field(description="What was said, word for word.")


class AddMessages(Arguments):
    session: Name = Field(
        description="Name of this conversation, such as `2026-11-03 trip to Porto`: choose it once, use it throughout."
    )
    messages: list[ToldMessage] = Field(
        min_length=1, max_length=LIMITS.batch_items, description="In the order they were said."
    )
    idempotency_key: Name | None = Field(
        None, description="Any name for this one call. If no answer comes, repeat the call under the same name."
    )


class SearchMemory(Arguments):
    query: Question = Field(
        description="The question itself, or what it is about. Times such as `last March` are understood."
    )
    limit: int = Field(5, ge=1, le=HITS_MAX, description="At most this many memories.")
    layer: Literal[SEARCHED_LAYERS] | None = Field(None, description="Only this kind of memory.")  # type: ignore[valid-type]


class GetContext(Arguments):
    query: Question = Field(description="What the user just asked, word for word.")
    max_tokens: int = Field(TOKENS_DEFAULT, ge=TOKENS_LEAST, le=TOKENS_MAX, description="Never more than this.")
    session: Name | None = Field(
        None, description="Also return its recent messages: only for a conversation that you cannot see."
    )


class GetProfile(Arguments):
    page: Page = 1
    limit: PageSize = PAGE_MAX


class ToldFact(Arguments):
    key: Name = Field(description="What it is about: `name`, `city`, `employer`, `allergy`, `birthday`, ...")
    value: Value = Field(description="A name, a place, a date, a short phrase.")
    confidence: Share = Field(1.0, description="1 if the user said it plainly, less if you inferred it.")


class AddFact(ToldFact):
    instead_of: Value | None = Field(None, description="The old value, if it was a mistake and never true.")


class RejectFact(Arguments):
    key: Key
    value: Value | None = Field(None, description="The wrong value, if the key holds several.")
    was_true: bool = Field(False, description="It was true until now.")


class UpdatePreference(Arguments):
    key: Name = Field(description="Name of the setting: `tone`, `theme`, `language`, `units`, ...")
    value: Value = Field(description="What the user wants: `concise`, `dark`, ...")


class AddLearning(Arguments):
    content: Annotated[str, Field(min_length=1, max_length=LEARNING_BYTES)] = Field(
        description="One sentence that helps next time, such as `Wants the query plan with every SQL answer.`"
    )
    type: Literal[LEARNING_TYPES] = Field(  # type: ignore[valid-type]
        "pattern", description="`correction`: you were corrected. `preference`: how they like it. `pattern`: it recurs."
    )


class ListSessions(Arguments):
    limit: PageSize = 20
    after: After = None


class GetMemory(Arguments):
    id: Name = Field(description="Id from search_memory.")


class GetMessages(Arguments):
    session: Name = Field(description="Name of the conversation.")
    after: After = None


class Forget(Arguments):
    ids: list[Name] = Field(
        min_length=1, max_length=FORGOTTEN_MAX, description="Ids from search_memory or get_profile."
    )


# ── What they give ───────────────────────────────────────────────────────────────────────────────


class Result(BaseModel, ABC):
    """Fields for programs, and the same as text for a model."""

    @abstractmethod
    def text(self) -> str:
        """What a model reads."""


class Remembered(Result):
    id: str = Field(description="Id of what is now kept.")
    confidence: float = Field(description="How sure it is, 0 to 1.")

    def text(self) -> str:
        return f"Kept, with the id {shown(self.id, LIMITS.id_chars)}."


class Stated(Result):
    ids: list[str] = Field(description="Ids of what is concerned, in the order given.")

    def text(self) -> str:
        return f"Done: {', '.join(self.ids)}."


class Read(Result):
    notice: str = NOTICE
    content: str
    after: str | None = Field(description="For the page before this one; null if this is all.")

    def text(self) -> str:
        return self.content + (f"\n\nThere is more, earlier: after={self.after}" if self.after else "")


class Stored(Result):
    session: str
    ids: list[str] = Field(description="Ids of the messages, in the order given.")

    def text(self) -> str:
        return f"{len(self.ids)} kept in the session {shown(self.session, LIMITS.id_chars)}."


class Recalled(BaseModel):
    id: str
    layer: str
    said_at: str = Field(description="When it was said or kept, ISO 8601.")
    said_by: str | None = Field(description="Who said it, if it was said in a conversation.")
    session: str | None
    score: float = Field(description="How well it fits; comparable only within one result.")
    relevance: float = Field(description="How likely it is that this answers the query, 0 to 1.")
    content: str
    cut: bool = Field(description="Whether only a part of it is here. get_memory has all of it.")

    def line(self) -> str:
        who = f"{self.said_by}: " if self.said_by else ""
        return f"- [{self.said_at[:10]}] {who}{self.content} (id {shown(self.id, LIMITS.id_chars)}, {self.layer})"


class Found(Result):
    notice: str = NOTICE
    memories: list[Recalled] = Field(description="Best first.")

    def text(self) -> str:
        lines = fenced_lines([each.line() for each in self.memories])
        best = max((each.relevance for each in self.memories), default=0)
        if best >= FITS:
            return lines
        told = "Nothing fits well. This is the closest:" if best >= NEAR else "Nothing relevant is remembered."
        closest = f"{told}\n\n{lines}" if best >= NEAR else f"{told} The closest, all weak matches:\n\n{lines}"
        return closest if lines else told


class Prepared(Result):
    context: str = Field(description="Ready to use: standing instructions of the user, then memories as data.")
    tokens: int = Field(description="Length of the context in tokens.")
    answerable: float = Field(description="How likely it is that this answers the question, 0 to 1.")
    sources: list[str] = Field(description="Ids of the memories in it.")

    def text(self) -> str:
        return self.context or "Nothing relevant is remembered."


class Known(BaseModel):
    id: str
    kind: Literal["fact", "preference"]
    key: str
    value: str
    confidence: float
    since: str | None = Field(description="Since when it is true, ISO 8601, if that is known.")

    def line(self) -> str:
        return f"- {self.key}: {self.value} ({self.kind}, id {shown(self.id, LIMITS.id_chars)})"


class Profile(Result):
    notice: str = NOTICE
    known: list[Known] = Field(description="Preferences first, then facts in the order they were learned.")
    next_page: int | None = Field(description="Null on the last page.")

    def text(self) -> str:
        lines = [each.line() for each in self.known]
        return fenced_lines(lines, self.next_page) or "Nothing is known about the user yet."


class Conversation(BaseModel):
    id: str
    title: str
    messages: int
    last_activity: str = Field(description="When something was last said, ISO 8601.")

    def line(self) -> str:
        last = self.last_activity[:10]
        return f"- {shown(self.id, LIMITS.id_chars)}: {self.title} (messages: {self.messages}, last {last})"


class Sessions(Result):
    notice: str = NOTICE
    sessions: list[Conversation] = Field(description="The most recently active first.")
    after: str | None = Field(description="For the next page; null on the last one.")

    def text(self) -> str:
        more = f"\n\nThere is more: after={self.after}" if self.after else ""
        return (fenced_lines([each.line() for each in self.sessions]) or "There are no conversations yet.") + more


class Forgotten(Result):
    count: int = Field(description="Records that are gone, with everything derived from them.")
    layers: dict[str, int] = Field(description="How many of them were in each layer.")

    def text(self) -> str:
        return f"Forgotten for good: {self.count} {'record' if self.count == 1 else 'records'}."


def fenced_lines(lines: Sequence[str], next_page: int | None = None) -> str:
    """Lines inside a fence, and below it where the rest is; an empty text if there are no lines."""
    more = f"\n\nThere is more: page {next_page}." if next_page else ""
    return fenced(["\n".join(lines)]) + more if lines else ""
