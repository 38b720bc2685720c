"""Commands for the server: `serve`, and the keys that open it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer

from recollect.errors import Unavailable, ValidationError
from recollect.interfaces.options import Json, Url, on_loop, place
from recollect.interfaces.output import NOT_FOUND, day_and_time, emit, give, one_line, say, table
from recollect.interfaces.playing import play
from recollect.records import system_clock
from recollect.server.keys import SCOPES, Key, Keys
from recollect.settings import Settings
from recollect.stores import open_store

T = TypeVar("T")

Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; overrides file and environment.")
]


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; without keys, only this machine.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that share the port and the store.", min=1)] = None,
    setting: Setting = None,
    sample: Annotated[bool, typer.Option("--sample", help="First add an invented person to look at.")] = False,
    scene: Annotated[
        bool, typer.Option("--play", help="Talk to itself over HTTP, print the conversation, and stop.")
    ] = False,
    url: Url = None,
) -> None:
    """Serve the memory over HTTP, with the console at /, until Ctrl-C. Each request is logged to standard error.

    Options that are not given are read from RECOLLECT_* variables, then from recollect.toml.

    Example: recollect serve --port 8765 --workers 2 --set requests_per_day=100000
    """
    settings = _settings(setting or [], workers)
    where, door = settings.host if host is None else host, settings.port if port is None else port
    server = _server()
    if scene:
        play(server, settings, where, door)
        return

    def told(address: str, needs_keys: bool) -> None:
        processes = f" with {settings.workers} processes" if settings.workers > 1 else ""
        say(f"Recollect is serving {place(url)}{processes}. Press Ctrl-C to stop. The console: {address}")
        if not needs_keys:
            say("There are no keys, so only this machine has access. `recollect keys create` makes one.")
        sys.stdout.flush()

    server.serve_with(url, settings, where, door, told=told, sample=sample)


def _settings(given: list[str], workers: int | None) -> Settings:
    """The settings from file and environment, overridden by those on the command line."""
    values: dict[str, Any] = {}
    for each in given:
        name, is_one, value = each.partition("=")
        if not is_one:
            raise ValidationError("must be NAME=VALUE, such as requests_per_minute=600", field="set")
        values[name] = value
    return Settings.read(os.environ).with_(values | ({} if workers is None else {"workers": workers}))


def _server() -> Any:
    try:
        return import_module("recollect.server.processes")
    except ModuleNotFoundError as error:
        raise Unavailable('the server needs more packages: pip install "recollect[server]"', field="serve") from error


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────


def create_key(
    org: Annotated[str, typer.Option(help="The organisation the key is for.")] = "default",
    user: Annotated[
        str | None, typer.Option(help="The only user it is for; else every user of the organisation.")
    ] = None,
    scope: Annotated[str, typer.Option(help=f"What it allows: {', '.join(SCOPES)}.")] = "write",
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it is valid, such as 90d or 12h.")
    ] = None,
    name: Annotated[str, typer.Option(help="What it is for, to tell it from other keys.")] = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a key and show it once: only its hash is kept.

    Example: recollect keys create --org acme --scope write --expires 90d
    """
    key, token = _with_keys(url, lambda keys: keys.create(org=org, user=user, scope=scope, expires=expires, name=name))
    if as_json:
        emit(key.to_dict() | {"token": token})
        return
    sys.stdout.write(f"{token}\n")
    whose = f"user {one_line(user, 60)} of org {one_line(org, 60)}" if user else f"org {one_line(org, 60)}"
    say(f"It is for {whose}, with the scope `{scope}`, and is not shown again. Its id is {key.id}.")


def list_keys(url: Url = None, as_json: Json = False) -> None:
    """List all keys, including those that are no longer valid; never the keys themselves.

    Example: recollect keys list --json
    """
    found = _with_keys(url, lambda keys: keys.list())
    if as_json:
        emit([key.to_dict() | {"state": key.state(system_clock())} for key in found])
    elif found:
        table(["id", "org", "user", "scope", "created", "expires", "state", "name"], [_row(key) for key in found])
    else:
        say("There are no keys. `recollect keys create` makes one.")
    if not found:
        raise typer.Exit(NOT_FOUND)


def _row(key: Key) -> tuple[str, ...]:
    ends = day_and_time(key.expires_at) if key.expires_at is not None else "-"
    return (key.id, key.org, key.user or "all", key.scope, day_and_time(key.created_at), ends,
            key.state(system_clock()), key.name)  # fmt: skip


def revoke_key(
    id: Annotated[str, typer.Argument(help="The id of the key; `keys list` shows it.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Revoke a key, from the next request on.

    Example: recollect keys revoke 1f3a5c7e9b0d
    """
    key = _with_keys(url, lambda keys: keys.revoke(id))
    give(as_json, key.to_dict(), f"The key {key.id} is revoked.")


def _with_keys(url: str | None, step: Callable[[Keys], Awaitable[T]]) -> T:
    """Open the store, do one thing with its keys, and close it."""

    async def go() -> T:
        settings = Settings.read(os.environ)
        store = await open_store(settings.url if url is None else url, busy_timeout_s=settings.busy_timeout_s)
        try:
            return await step(Keys(store, system_clock))
        finally:
            await store.close()

    return on_loop(go(), url)


KEYS: dict[str, Callable[..., None]] = {"list": list_keys, "create": create_key, "revoke": revoke_key}
