"""Commands for the state of the task at hand: `working`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from recollect import json_text
from recollect.errors import TooLarge, ValidationError
from recollect.interfaces.options import json_of
from recollect.interfaces.output import NOT_FOUND, emit, give, say, visible
from recollect.interfaces.whose import Whose
from recollect.user import User
from recollect.working import PUSH_KEEP, State, Working

OfSession = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="ID", help="State of this session; else the state across sessions.", show_default=False
    ),
]
Agent = Annotated[str, typer.Option(help="State of this assistant in the session.")]
Data = Annotated[str, typer.Argument(metavar="JSON", help='An object, such as {"step": 2, "page": "/orders"}.')]
Version = Annotated[
    int | None,
    typer.Option(help="Change it only if it still has this version; else fail with a conflict.", show_default=False),
]


def working_show(whose: Whose, session: OfSession = None, agent: Agent = "") -> None:
    """Show the state of the task: a plan, a page, recent actions, whatever the assistant keeps there.

    Example: recollect working show --session monday
    """
    state = whose.look(lambda who: _working(who, session, agent).get())
    if whose.as_json:
        emit(_with_version(state))
    elif state:
        say(visible(json.dumps(state, ensure_ascii=False, indent=2)))
    else:
        say(f"No working state for {whose.in_words}")
    if not state:
        raise typer.Exit(NOT_FOUND)


def working_set(
    whose: Whose, data: Data, session: OfSession = None, agent: Agent = "", version: Version = None
) -> None:
    """Replace the state with another one.

    Example: recollect working set '{"step": 1, "plan": ["pack", "leave"]}' --session monday
    """
    given = json_of(data, "data")
    state = whose.run(lambda who: _working(who, session, agent).set(given, version=version))
    _show_state(state, whose.as_json)


def working_patch(
    whose: Whose, data: Data, session: OfSession = None, agent: Agent = "", version: Version = None
) -> None:
    """Change parts of the state: null removes, objects merge, the rest replaces.

    Example: recollect working patch '{"step": 2}' --session monday
    """
    given = json_of(data, "data")
    state = whose.run(lambda who: _working(who, session, agent).patch(given, version=version))
    _show_state(state, whose.as_json)


def working_push(
    whose: Whose,
    name: Annotated[str, typer.Argument(metavar="LIST", help="Which list in the state, such as recent_actions.")],
    item: Annotated[str, typer.Argument(metavar="JSON", help='What to append, such as \'{"opened": "order 42"}\'.')],
    keep: Annotated[int, typer.Option(help="How many of the newest items to keep.")] = PUSH_KEEP,
    session: OfSession = None,
    agent: Agent = "",
) -> None:
    """Append to a list in the state, and drop its oldest items.

    Example: recollect working push recent_actions '"opened order 42"' --session monday
    """
    given = _item(item)
    state = whose.run(lambda who: _working(who, session, agent).push(name, given, keep=keep))
    _show_state(state, whose.as_json)


def _item(given: str) -> Any:
    try:
        return json_text.parse(given, "item")
    except TooLarge:
        raise
    except ValidationError as error:
        raise ValidationError(
            f"{error.message}; a text needs its own quotes, such as '\"done\"'", field="item"
        ) from error


def working_clear(whose: Whose, session: OfSession = None, agent: Agent = "") -> None:
    """Forget the state.

    Example: recollect working clear --session monday
    """
    whose.look(lambda who: _working(who, session, agent).clear())
    give(whose.as_json, {"cleared": True}, "Cleared.")


def _working(user: User, session: str | None, agent: str) -> Working:
    if session is not None:
        return user.session(session, agent=agent).working
    if agent:
        raise ValidationError("belongs to a session; give --session too", field="agent")
    return user.working


def _show_state(state: State, as_json: bool) -> None:
    give(as_json, _with_version(state), f"Saved as version {state.version}.")


def _with_version(state: State) -> dict[str, Any]:
    return {"state": state, "version": state.version}


WORKING: dict[str, Callable[..., None]] = {
    "show": working_show,
    "set": working_set,
    "patch": working_patch,
    "push": working_push,
    "clear": working_clear,
}
