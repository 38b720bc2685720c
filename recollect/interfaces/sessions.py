"""The command about conversations: `sessions`."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Annotated

import typer

from recollect.conversation import Message
from recollect.episodes import Episode
from recollect.errors import NotFound, ValidationError
from recollect.interfaces.graphing import show_noted
from recollect.interfaces.moving import show_receipt
from recollect.interfaces.options import DryRun
from recollect.interfaces.output import NOT_FOUND, day_and_time, emit, give, one_line, say, table, visible
from recollect.interfaces.whose import Whose
from recollect.paging import every
from recollect.privacy import Receipt
from recollect.session import Session
from recollect.user import User
from recollect.validate import LIMITS


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
        _show(whose, show)
    elif rename is not None:
        _rename(whose, *rename)
    elif close is not None:
        _close(whose, close)
    elif compress is not None:
        _compress(whose, compress)
    elif branch is not None:
        _branch(whose, *branch)
    elif delete is not None:
        _delete(whose, delete, dry_run)
    else:
        _list(whose, limit)


def _list(whose: Whose, limit: int) -> None:
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


def _rename(whose: Whose, id: str, title: str) -> None:
    async def named(user: User) -> None:
        await (await _there(user, id)).rename(title)

    whose.look(named)
    give(whose.as_json, {"renamed": id}, "Renamed.")


def _close(whose: Whose, id: str) -> None:
    async def closed(user: User) -> list[Episode]:
        return await (await _there(user, id)).close()

    show_noted(whose.look(closed), whose.as_json)


def _compress(whose: Whose, id: str) -> None:
    async def compressed(user: User) -> bool:
        return await (await _there(user, id)).compress()

    folded = whose.look(compressed)
    told = "Its first half is now in the summary; the messages stay." if folded else "There is nothing to compress yet."
    give(whose.as_json, {"compressed": folded}, told)


def _branch(whose: Whose, id: str, message: str, new: str) -> None:
    whose.look(lambda who: who.session(id).branch(message, new))
    went_on = f"`recollect chat --session {shlex.quote(one_line(new, 128))}` continues from there."
    give(whose.as_json, {"branched": new}, went_on)


def _delete(whose: Whose, id: str, dry_run: bool) -> None:
    if dry_run:
        messages = whose.look(lambda who: who.session(id).export())["messages"]
        show_receipt(Receipt({"conversation": len(messages)} if messages else {}), whose.as_json, dry_run=True)
    else:
        show_receipt(whose.look(lambda who: who.session(id).delete()), whose.as_json)


def _show(whose: Whose, id: str) -> None:
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


async def _there(user: User, id: str) -> Session:
    """A session that has messages; any other id is taken for a mistake."""
    session = user.session(id)
    if not (await session.messages(limit=1))[0]:
        raise NotFound(field="session")
    return session
