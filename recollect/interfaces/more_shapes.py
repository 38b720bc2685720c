"""What the further tools of a model take and return; see `tool_shapes.py`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recollect.interfaces.tool_shapes import (
    NOTICE,
    After,
    Arguments,
    Key,
    Name,
    Result,
    Text,
    ToldFact,
    Value,
    fenced_lines,
)
from recollect.profile import UPSERT_MAX
from recollect.validate import INSTRUCTION_CHARS

EXPORT_MAX = 50
"""Records on one page of an export."""
Session = Annotated[Name, Field(description="Name of the conversation.")]
Again = Annotated[Name | None, Field(description="Any name for this one call, to repeat it without storing it twice.")]


class AddMessage(Arguments):
    session: Session
    role: Literal["user", "assistant", "tool"] = Field(description="`tool` for what a tool or a page said.")
    content: Text = Field(description="What was said, word for word.")
    idempotency_key: Again = None


class AddInteraction(Arguments):
    session: Session
    user: Text = Field(description="What the user said, word for word.")
    assistant: Text = Field(description="What you answered, word for word.")
    idempotency_key: Again = None


class UpsertFacts(Arguments):
    facts: list[ToldFact] = Field(min_length=1, max_length=UPSERT_MAX, description="Stored together or not at all.")


class CorrectFact(Arguments):
    key: Key
    value: Value = Field(description="What is true, and was all along.")
    instead_of: Value | None = Field(None, description="The wrong value, if the key holds several.")


class UpdateMemory(Arguments):
    id: Name = Field(description="Id from search_memory.")
    content: Text = Field(description="What it should say, in full.")


class Customize(Arguments):
    text: Annotated[str, Field(min_length=1, max_length=INSTRUCTION_CHARS)] = Field(
        description="The instruction in the user's own words, such as `Always answer in French.`"
    )


class Export(Arguments):
    limit: int = Field(20, ge=1, le=EXPORT_MAX, description="Records on one page.")
    after: After = None


class Erase(Arguments):
    what: Literal["everything"] = Field(description="Nothing less can be erased; for single memories use forget.")


class Exported(Result):
    notice: str = NOTICE
    lines: list[str] = Field(description="Each is one line of JSON; the lines of all pages are a file to import.")
    after: str | None = Field(description="For the next page; null on the last one.")

    def text(self) -> str:
        more = f"\n\nThere is more: after={self.after}" if self.after else ""
        return fenced_lines(self.lines) + more
