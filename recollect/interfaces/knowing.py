"""Commands for what is known of a user: `profile`, `facts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from recollect.interfaces.output import NOT_FOUND, day_and_time, emit, here, one_line, say, table
from recollect.interfaces.whose import Whose
from recollect.policies.keys import KEYS, PREFERENCES, key_of
from recollect.profile import Fact, Facts, Profile
from recollect.user import User

_TIME = "a date or time such as 2026-03-01 (a date means 00:00 UTC)"
AsOf = Annotated[str | None, typer.Option(metavar="TIME", help=f"What was true then: {_TIME}.")]
KnownAt = Annotated[str | None, typer.Option(metavar="TIME", help="What was believed then.")]
FactKey = Annotated[str, typer.Argument(help="What it is about, such as city, diet or theme.")]
OneValue = Annotated[str | None, typer.Argument(help="Which value, if the key has several.", show_default=False)]
Preference = Annotated[
    bool, typer.Option("--preference", help="A preference, not a fact; common ones are recognised without this.")
]
Reason = Annotated[str, typer.Option(help="Why; kept in the history.")]


# ── The profile ──────────────────────────────────────────────────────────────────────────────────


def profile(whose: Whose, as_of: AsOf = None, known_at: KnownAt = None) -> None:
    """Show what is known about a user: now, what was true at a given time, or what was believed then.

    Example: recollect profile --as-of 2026-03-01
    """
    known = whose.ask(lambda who: who.profile(as_of=as_of, known_at=known_at))
    is_empty = not known.facts and not known.preferences
    if whose.as_json:
        emit(known.to_dict())
    elif is_empty and (as_of or known_at):
        say(f"Nothing is known of that time about {whose.in_words}")
    elif is_empty:
        say(f"Nothing is known about {whose.in_words}")
        say("Facts are learned from what is said in `recollect chat`, or stated with `recollect facts set`.")
    else:
        _show_profile(known)
    if is_empty:
        raise typer.Exit(NOT_FOUND)


def _show_profile(known: Profile) -> None:
    if known.last_interaction is not None:
        say(f"{one_line(known.name or known.user_id, 60)}, last seen {day_and_time(known.last_interaction)}")
    if known.facts:
        rows = [(_day(f.valid_from), percent(f.confidence), f.key, f.value) for f in in_order(known.facts)]
        table(["since", "sure", "fact", "value"], rows, right=["sure"])
    if known.preferences:
        table(["preference", "value"], [(key, _joined(value)) for key, value in known.preferences.items()])


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """Facts in the order people would tell them: who somebody is before what they own; other keys go last."""
    places = {key: number for number, key in enumerate(KEYS)}
    return sorted(facts, key=lambda fact: (places.get(fact.key, len(places)), fact.key))


def _joined(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _day(moment: datetime | None) -> str:
    return "" if moment is None else f"{here(moment):%Y-%m-%d}"


def percent(share: float) -> str:
    return f"{share:.0%}"


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────


def facts_list(whose: Whose, preference: Preference = False, as_of: AsOf = None, known_at: KnownAt = None) -> None:
    """List facts and how sure each is; --preference lists preferences, --json also shows where each comes from.

    Example: recollect facts list --as-of 2026-03-01
    """
    held = whose.look(lambda who: _facts(who, "", preference).list(as_of=as_of, known_at=known_at))
    rows = [(_day(f.valid_from), percent(f.confidence), f.seen, f.status, f.key, f.value) for f in in_order(held)]
    columns = ["since", "sure", "said", "status", "key", "value"]
    nothing = f"Nothing of that kind is known about {whose.in_words} `recollect facts set city Bergen` states a fact."
    show_found(held, whose.as_json, columns, rows, nothing)


def facts_history(whose: Whose, key: FactKey, preference: Preference = False) -> None:
    """Show everything that was said about a key, oldest first, including what is not believed and why.

    Example: recollect facts history city
    """
    held = whose.look(lambda who: _facts(who, key, preference).history(key))
    rows = [(_day(f.valid_from), _until(f), f.status.replace("_", " "), _with_reason(f)) for f in held]
    show_found(held, whose.as_json, ["from", "until", "status", "value"], rows, "Nothing was said about that.")


def _until(fact: Fact) -> str:
    if fact.status in ("rejected", "corrected", "not_taken"):
        return "never true"
    return _day(fact.valid_to) or "now"


def _with_reason(fact: Fact) -> str:
    return f"{fact.value} ({fact.reason})" if fact.reason else fact.value


def facts_set(
    whose: Whose,
    key: FactKey,
    value: Annotated[str, typer.Argument(help="The value.")],
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Since when it is true: {_TIME}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until when, if it is over.")] = None,
    confidence: Annotated[float, typer.Option(help="How sure it is, 0 to 1.")] = 1.0,
    preference: Preference = False,
) -> None:
    """State a fact. Any other value of the key ends and stays in its history; a key such as hobby can hold several.

    Example: recollect facts set city Bergen --since 2026-03-01
    """
    fact = whose.tell(
        lambda who: _facts(who, key, preference).add(
            key, value, confidence=confidence, valid_from=since, valid_to=until
        )
    )
    _show_facts(when_true(fact.valid_from, fact.valid_to), [fact], whose.as_json)


def facts_correct(
    whose: Whose,
    key: FactKey,
    value: Annotated[str, typer.Argument(help="The right value.")],
    instead_of: Annotated[str | None, typer.Option(help="Which value was wrong, if the key has several.")] = None,
    reason: Reason = "",
    preference: Preference = False,
) -> None:
    """State the right value, and that the previous one was never true.

    Example: recollect facts correct pet Biscuit --instead-of Basket
    """
    fact = whose.tell(
        lambda who: _facts(who, key, preference).correct(key, value, instead_of=instead_of, reason=reason)
    )
    _show_facts("Corrected", [fact], whose.as_json)


def facts_end(
    whose: Whose,
    key: FactKey,
    value: OneValue = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help=f"When it ended: {_TIME}.")] = None,
    reason: Reason = "",
    preference: Preference = False,
) -> None:
    """Say that something is no longer true; it stays in the history.

    Example: recollect facts end hobby climbing --reason "bad shoulder"
    """
    ended = whose.look(lambda who: _facts(who, key, preference).end(key, value, at=at, reason=reason))
    _show_facts("Ended", ended, whose.as_json)


def facts_reject(
    whose: Whose, key: FactKey, value: OneValue = None, reason: Reason = "", preference: Preference = False
) -> None:
    """Say that something was never true; it is not learned again from the same text, and what it replaced is back.

    Example: recollect facts reject employer
    """
    denied = whose.look(lambda who: _facts(who, key, preference).reject(key, value, reason=reason))
    _show_facts("Rejected", denied, whose.as_json)


def facts_confirm(whose: Whose, key: FactKey, value: OneValue = None, preference: Preference = False) -> None:
    """Confirm that something is right; what is merely learned no longer replaces it.

    Example: recollect facts confirm allergy walnuts
    """
    held = whose.look(lambda who: _facts(who, key, preference).confirm(key, value))
    _show_facts("Confirmed", held, whose.as_json)


def facts_pin(whose: Whose, key: FactKey, value: OneValue = None, preference: Preference = False) -> None:
    """Protect a value from whatever is learned, until it is unpinned.

    Example: recollect facts pin nickname
    """
    held = whose.look(lambda who: _facts(who, key, preference).pin(key, value))
    _show_facts("Pinned", held, whose.as_json)


def facts_unpin(whose: Whose, key: FactKey, value: OneValue = None, preference: Preference = False) -> None:
    """Let a value be replaced again like any other.

    Example: recollect facts unpin nickname
    """
    held = whose.look(lambda who: _facts(who, key, preference).unpin(key, value))
    _show_facts("Unpinned", held, whose.as_json)


def _facts(user: User, key: str, preference: bool) -> Facts:
    """The facts of a user, or the settings if the key is one of them."""
    return user.preferences if preference or key_of(key).name in PREFERENCES else user.facts


def when_true(since: datetime | None, until: datetime | None) -> str:
    """What was just stated, in words: whether it holds now, is over, or is yet to begin."""
    now = datetime.now(UTC)
    if since is not None and since > now:
        return f"Known from {_day(since)} on"
    return f"Known until {_day(until)}" if until is not None and until <= now else "Known now"


def _show_facts(done: str, facts: Sequence[Fact], as_json: bool) -> None:
    if as_json:
        emit([fact.to_dict() for fact in facts])
        return
    for fact in facts:
        has_begun = fact.valid_from is not None and fact.valid_from <= datetime.now(UTC)
        since = f", since {_day(fact.valid_from)}" if has_begun and not fact.valid_to else ""
        say(f"{done}: {one_line(fact.key, 64)} = {one_line(fact.value, 200)}{since}.")


def show_found(
    items: Sequence[Any], as_json: bool, columns: Sequence[str], rows: Sequence[Sequence[object]], nothing: str
) -> None:
    """Show what was found, as JSON or as a table; exit with code 1 if nothing was found."""
    if as_json:
        emit([item.to_dict() for item in items])
    elif rows:
        table(columns, rows, right=["sure", "used", "said"])
    else:
        say(nothing)
    if not items:
        raise typer.Exit(NOT_FOUND)


# ── By name ──────────────────────────────────────────────────────────────────────────────────────

FACTS: dict[str, Callable[..., None]] = {
    "list": facts_list,
    "history": facts_history,
    "set": facts_set,
    "correct": facts_correct,
    "end": facts_end,
    "reject": facts_reject,
    "confirm": facts_confirm,
    "pin": facts_pin,
    "unpin": facts_unpin,
}
