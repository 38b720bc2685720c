"""Commands that talk and ask: `chat`, `search`, `context`, `sessions`."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from recollect.conversation import Message
from recollect.episodes import Episode
from recollect.errors import NotFound, ValidationError
from recollect.interfaces import chat as talking
from recollect.interfaces.graphing import show_noted
from recollect.interfaces.moving import show_receipt
from recollect.interfaces.options import (
    DryRun,
    Layer,
    Where,
    filter_of,
    object_of,
)
from recollect.interfaces.output import (
    NOT_FOUND,
    complain,
    day_and_time,
    emit,
    entries,
    give,
    one_line,
    plural,
    say,
    table,
    visible,
)
from recollect.interfaces.quoting import NEAR
from recollect.interfaces.whose import Whose
from recollect.paging import every
from recollect.policies.trimming import trimmed
from recollect.policies.words import STOP_WORDS, split, terms
from recollect.privacy import Receipt
from recollect.records import FITS, Hit
from recollect.session import Session
from recollect.user import User
from recollect.validate import LIMITS

if TYPE_CHECKING:
    from recollect.context import Context

SHOWN_CHARACTERS = 300
"""How much of a hit is shown: three or four lines."""
_LIST_NUMBER = re.compile(r"^\s{0,8}\d{1,3}[.)]\s", re.MULTILINE)
"""By itself, it would pass for a short sentence."""

At = Annotated[str | None, typer.Option(metavar="TIME", help="Time of the question; else now.", show_default=False)]
Quality = Annotated[
    str | None, typer.Option(metavar="fast|best", help="best reorders the first hits with the reranker.")
]


def chat(
    whose: Whose,
    session: Annotated[str | None, typer.Option(help="Continue this session; else start a new one.")] = None,
    agent: Annotated[str, typer.Option(help="Name of the assistant.")] = "",
    script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Say the lines of this file; - reads standard input.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="openai:NAME", help="Answer with this model, at llm_url with llm_key.")
    ] = None,
) -> None:
    """Talk to an assistant that answers from memory; without a terminal or input, a short demo plays.

    Example: recollect chat --session monday
    """
    said = talking.script(script) if script is not None else None if sys.stdin.isatty() else talking.piped()
    if script is None and said == [] and (session is not None or model is not None):
        raise ValidationError("standard input has no lines to say", field="chat")
    if script is None and said == []:
        talking.play(whose, agent)
    else:
        talking.talk(whose, session, agent, said, model)


def search(
    whose: Whose,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    layer: Layer = None,
    where: Where = None,
    limit: Annotated[int, typer.Option(help="How many at most, 1 to 1000.")] = 5,
    at: At = None,
    quality: Quality = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show weak matches.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Explain how each was found.")] = False,
) -> None:
    """Find the memories that answer a question best.

    Weak matches are counted but not shown, unless there is nothing better. JSON has them all, with relevance.

    Example: recollect search "which theme" --layer long_term --explain
    """
    test = filter_of(where)
    hits = whose.ask(
        lambda who: who.search_memory(query, layer=layer or None, where=test, limit=limit, at=at, quality=quality)
    )
    if whose.as_json:
        emit([hit.to_dict() for hit in hits])
    elif hits:
        _show_hits(query, hits, explain, everything)
    else:
        say(f"Nothing found for {whose.in_words}")
    if not hits:
        raise typer.Exit(NOT_FOUND)


def _show_hits(query: str, hits: Sequence[Hit], explain: bool, everything: bool) -> None:
    """Show the hits, and say in words how close they are: what answers nothing must not look like an answer."""
    near = [hit for hit in hits if hit.relevance >= NEAR]
    if not near:
        say("Nothing relevant is remembered. The closest, all weak matches:")
    elif all(hit.relevance < FITS for hit in near):
        say("Nothing fits well. This is the closest:")
    shown = hits if everything or not near else near
    entries([(hit.place, _hit_text(query, hit, explain)) for hit in shown])
    if len(shown) < len(hits):
        more = len(hits) - len(shown)
        say(f"{more:,} more found, only weakly related; --all shows {'it' if more == 1 else 'them'}.", style="dim")


def _hit_text(query: str, hit: Hit, explain: bool) -> Text:
    """The memory first, of a long one what was asked for, then where it comes from and how it was found."""
    record = hit.record
    source = visible(str(record.data.get("role") or record.layer))
    where = f"{source} in {visible(record.scope.session)}" if record.scope.session else source
    more = f"relevance {hit.relevance:.0%}" + (f", id {record.id}\n{hit.explain()}" if explain else "")
    text = Text(_excerpt(record.content, query))
    return text.append(f"\n{day_and_time(record.when)}, {where}, {more}", style="dim")


def _excerpt(content: str, query: str) -> str:
    """A text on one line; of a long one, the sentences that have the words of the question."""
    whole = " ".join(content.split())
    if len(whole) > SHOWN_CHARACTERS:
        asked = " ".join(word for word in split(query) if word not in STOP_WORDS)
        content = trimmed(_LIST_NUMBER.sub("", content), dict.fromkeys(terms(asked), 1.0), SHOWN_CHARACTERS, len)
    return one_line(content, SHOWN_CHARACTERS)


def context(
    whose: Whose,
    query: Annotated[str, typer.Argument(help="The question the context is for.")],
    session: Annotated[str | None, typer.Option(help="Include the recent messages of this session.")] = None,
    agent: Annotated[str, typer.Option(help="Include this assistant's instructions and working state.")] = "",
    max_tokens: Annotated[int, typer.Option(help="At most this many tokens.")] = 4_000,
    layer: Layer = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help='What it is made of, such as {"sections": ["profile"], "shares": {"recent": 0.3}}.'
        ),
    ] = None,
    at: At = None,
    quality: Quality = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what is in it, what was left out, and why.")] = False,
) -> None:
    """Show what a chat model would be given for a question.

    Example: recollect context "Which theme should I use?" --max-tokens 2000 --explain
    """

    chosen = object_of(policy, "policy")

    def build(who: User) -> Awaitable[Context]:
        asked: User | Session = who if session is None else who.session(session, agent=agent)
        return asked.get_context(
            query, max_tokens=max_tokens, layers=layer or None, policy=chosen, at=at, quality=quality
        )

    if agent and session is None:
        raise ValidationError("belongs to a session; give --session too", field="agent")

    built = whose.ask(build)
    if whose.as_json:
        emit(built.to_dict())
        return
    for message in built.messages:
        say(f"{message['role']}:", style="bold")
        say(visible(str(message["content"])) + "\n")
    if built.report.left_out and not built.report.kept:
        found = plural(len(built.report.left_out), "item")
        complain(f"nothing fits into {max_tokens} tokens, {found} left out; raise --max-tokens")
    elif not built.sections:
        complain(f"nothing relevant is remembered for {whose.in_words}")
    if explain:
        say(visible(built.explain()), style="dim")


def sessions(
    whose: Whose,
    show: Annotated[
        str | None, typer.Option(metavar="ID", help="Show the messages of a session, with their ids.")
    ] = None,
    rename: Annotated[tuple[str, str] | None, typer.Option(metavar="ID TITLE", help="Give a session a title.")] = None,
    close: Annotated[str | None, typer.Option(metavar="ID", help="Close a session: it becomes an episode now.")] = None,
    compress: Annotated[
        str | None, typer.Option(metavar="ID", help="Fold the first half of a session into its summary now.")
    ] = None,
    branch: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="ID MESSAGE NEW",
            help="Start session NEW from this one, up to MESSAGE; --show has the ids of messages.",
        ),
    ] = None,
    delete: Annotated[str | None, typer.Option(metavar="ID", help="Forget a session.")] = None,
    dry_run: DryRun = False,
    limit: Annotated[int, typer.Option(help="How many at most, 1 to 1000.")] = 100,
) -> None:
    """List the conversations of a user; show, rename, close, compress, branch or forget one.

    Example: recollect sessions --rename monday "The new flat"
    """
    if sum(choice is not None for choice in (show, rename, close, compress, branch, delete)) > 1:
        raise ValidationError(
            "choose one of --show, --rename, --close, --compress, --branch, --delete", field="sessions"
        )
    if dry_run and delete is None:
        raise ValidationError("works only with --delete", field="dry-run")
    if show is not None:
        _show_session(whose, show)
    elif rename is not None:
        whose.look(lambda who: _rename(who, *rename))
        give(whose.as_json, {"renamed": rename[0]}, "Renamed.")
    elif close is not None:
        show_noted(whose.look(lambda who: _close(who, close)), whose.as_json)
    elif compress is not None:
        folded = whose.look(lambda who: _compress(who, compress))
        told = (
            "Its first half is now in the summary; the messages stay."
            if folded
            else "There is nothing to compress yet."
        )
        give(whose.as_json, {"compressed": folded}, told)
    elif branch is not None:
        whose.look(lambda who: who.session(branch[0]).branch(*branch[1:]))
        went_on = f"`recollect chat --session {shlex.quote(one_line(branch[2], 128))}` continues from there."
        give(whose.as_json, {"branched": branch[2]}, went_on)
    elif delete is not None:
        _delete_session(whose, delete, dry_run)
    else:
        _list_sessions(whose, limit)


def _list_sessions(whose: Whose, limit: int) -> None:
    listed = whose.look(lambda who: who.sessions(limit=limit))
    if whose.as_json:
        emit([info.to_dict() for info in listed])
    elif listed:
        rows = [(i.id, i.messages, day_and_time(i.last_activity), one_line(i.title, 80)) for i in listed]
        table(["id", "messages", "last activity", "title"], rows, right=["messages"])
    else:
        say(f"No sessions for {whose.in_words}")
    if not listed:
        raise typer.Exit(NOT_FOUND)


def _delete_session(whose: Whose, id: str, dry_run: bool) -> None:
    if dry_run:
        messages = whose.look(lambda who: who.session(id).export())["messages"]
        show_receipt(Receipt({"conversation": len(messages)} if messages else {}), whose.as_json, dry_run=True)
    else:
        show_receipt(whose.look(lambda who: who.session(id).delete()), whose.as_json)


def _show_session(whose: Whose, id: str) -> None:
    if whose.as_json:
        session = whose.look(lambda who: who.session(id).export())
        if not session["messages"]:
            raise NotFound(field="session")
        emit(session)
        return
    for message in whose.look(lambda who: _messages(who, id)):
        who = one_line(message.name or message.role, 60)
        when = day_and_time(message.created_at) if message.created_at else "at no known time"
        say(f"{who}, {when}, id {visible(message.id)}:", style="bold")
        say(visible(_said(message)) + "\n")


async def _messages(user: User, id: str) -> list[Message]:
    """All messages of a session that has some."""
    session = await _there(user, id)
    return [message async for message in every(partial(session.messages, limit=LIMITS.limit_max))]


def _said(message: Message) -> str:
    """What a message says and calls, for people: parts that are not text, and calls, as JSON."""
    parts = message.content if isinstance(message.content, list) else [message.content] if message.content else []
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in parts]
    told = [text if isinstance(text, str) else json.dumps(text, ensure_ascii=False) for text in texts]
    return "\n".join([*told, *(json.dumps(call, ensure_ascii=False) for call in message.tool_calls or ())])


async def _rename(user: User, id: str, title: str) -> None:
    await (await _there(user, id)).rename(title)


async def _close(user: User, id: str) -> list[Episode]:
    return await (await _there(user, id)).close()


async def _compress(user: User, id: str) -> bool:
    return await (await _there(user, id)).compress()


async def _there(user: User, id: str) -> Session:
    """A session that has messages; any other id is taken for a mistake."""
    session = user.session(id)
    if not (await session.messages(limit=1))[0]:
        raise NotFound(field="session")
    return session
