"""Is this installation healthy? Each check says what it found and, if need be, what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from recollect.embedders import open_embedder
from recollect.errors import Corrupt, RecollectError, ValidationError
from recollect.interfaces.options import file_of, is_missing, place
from recollect.interfaces.output import plural
from recollect.interfaces.salvaging import saved_in
from recollect.memory import Memory
from recollect.models import Ask, open_model
from recollect.records import HOUR_MS, system_clock
from recollect.settings import FILE_NAME, Settings, misspelt, variables_in
from recollect.stores import open_store
from recollect.stores.contract import DURABLE, FAIL, OK, WARN, OtherVersion, Survey
from recollect.stores.sqlite_file import MIGRATIONS, SQLITE_VERSION

PYTHON_MIN = (3, 11)
SQLITE_MIN = (3, 35)
"""The first version with everything that the schema and its statements use."""
FREE_MIN_BYTES, FREE_LOW_BYTES = 64 << 20, 1 << 30
"""Below the first, writing can fail at any moment; below the second, it is time to look."""
STUCK_MS = HOUR_MS
"""Work that has been due for this long is not being done by anyone."""
ANSWER_S = 15.0
"""How long an endpoint may take to answer; nobody at a terminal waits longer."""
UPGRADE = "start a server, or run a command that writes: the first to open it brings it up to date"
CORRECT = "correct recollect.toml or the RECOLLECT_ variable"
_IN_SETTINGS = frozenset(each.name for each in fields(Settings)) - {"url"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    state: str
    name: str
    found: str
    advice: str = ""

    @property
    def told(self) -> str:
        """What was found, and what to do about it."""
        return f"{self.found}. {self.advice[:1].upper()}{self.advice[1:]}." if self.advice else self.found

    def to_dict(self) -> dict[str, str]:
        return {"state": self.state, "name": self.name, "found": self.found, "advice": self.advice}


async def examine(url: str | None) -> AsyncIterator[Check]:
    """All checks, one after the other. Nothing is written: a store is opened for reading."""
    yield _at_least("Python", sys.version_info[:3], PYTHON_MIN)
    yield _at_least("SQLite", tuple(map(int, SQLITE_VERSION.split("."))), SQLITE_MIN)
    try:
        settings = Settings.read(os.environ)
    except RecollectError as error:
        yield Check(FAIL, "settings", str(error).rstrip("."), CORRECT)
        return
    yield _settings(os.environ)
    async for check in _store(settings.url if url is None else url, settings, OK if url is None else WARN):
        yield check
    if settings.llm:
        yield await _chat_model(settings)


async def _store(chosen: str, settings: Settings, if_missing: str) -> AsyncIterator[Check]:
    """What is kept there, or why that cannot be determined."""
    if is_missing(file_of(chosen)) and not settings.layers:
        for check in _nothing_yet(chosen, if_missing):
            yield check
        return
    try:
        async with Memory.open(_for_reading(chosen), settings=settings, llm="", worker=False) as memory:
            async for check in _look_inside(memory, settings):
                yield check
    except RecollectError as error:
        if isinstance(error, ValidationError) and error.field in _IN_SETTINGS:
            yield Check(FAIL, error.field, error.message.rstrip("."), CORRECT)
            return
        async for check in _each_alone(chosen, settings, error):
            yield check
        path = file_of(chosen)
        if isinstance(error, Corrupt) and path is not None:
            yield _salvage(path)


async def _each_alone(url: str, settings: Settings, error: RecollectError) -> AsyncIterator[Check]:
    """Which of the configured stores cannot be opened; if there are several, each is tried on its own."""
    if not settings.layers:
        yield _not_opened(place(url), error)
        return
    named: dict[str, list[str]] = {url: ["the rest"]}
    for layer, where in settings.layers.items():
        named.setdefault(where, []).append(layer)
    for where, holds in named.items():
        if is_missing(file_of(where)):
            yield replace(_nothing_yet(where, OK)[0], name=f"{', '.join(holds)}: store")
            continue
        try:
            store = await open_store(_for_reading(where), busy_timeout_s=settings.busy_timeout_s)
        except RecollectError as refused:
            check = _not_opened(place(where), refused)
            yield replace(check, name=f"{', '.join(holds)}: {check.name}")
        else:
            yield Check(OK, f"{', '.join(holds)}: store", f"{absolute(store.describe())} opens")
            await store.close()


def _nothing_yet(url: str, state: str) -> list[Check]:
    """A missing file is not a fault: it is created on first use."""
    path = Path(place(url)).absolute()
    advice = "start with `recollect chat`, `recollect add` or `recollect import`; the file is created then"
    return [Check(state, "store", f"{path}: nothing is kept there yet", advice), _free_space(path)]


def _for_reading(url: str) -> str:
    """The same store, opened so that it keeps its schema version."""
    if url.startswith("sqlite://") and not url.endswith("?mode=ro"):
        return f"{url}?mode=ro"
    if url.startswith(("postgresql://", "postgres://")):
        return f"{url}{'&' if '?' in url else '?'}migrate=no"
    return url


def _at_least(name: str, have: tuple[int, ...], least: tuple[int, ...]) -> Check:
    version = ".".join(map(str, have))
    if have >= least:
        return Check(OK, name, version)
    return Check(FAIL, name, version, f"Recollect needs {'.'.join(map(str, least))} or later")


def _settings(environ: Mapping[str, str]) -> Check:
    """Where settings come from, and which variables look like settings but are not."""
    wrong = misspelt(environ)
    if wrong:
        found = f"{', '.join(wrong)}: not read, because there is no such setting"
        return Check(WARN, "settings", found, f"perhaps {', '.join(wrong.values())} is meant")
    said = [FILE_NAME] if Path(FILE_NAME).is_file() else []
    said += variables_in(environ)
    return Check(OK, "settings", f"{', '.join(said) or 'defaults'}, on {platform.system()}")


def _not_opened(where: str, error: RecollectError) -> Check:
    if isinstance(error, OtherVersion):
        advice = "" if error.is_newer else f"back it up, then {UPGRADE}"
        return Check(FAIL if error.is_newer else WARN, "store", f"{where}: {error.message}", advice)
    advice = "check --url, RECOLLECT_URL and recollect.toml; a new file is created on first use"
    if isinstance(error, Corrupt):
        advice = "keep a copy of it as it is, and restore a backup or import an export"
    return Check(FAIL, "store", f"{where}: {error.message}".rstrip("."), advice)


def _salvage(path: Path) -> Check:
    """How much of a damaged file can still be read."""
    saved = saved_in(path)
    if not saved.records:
        return Check(
            FAIL, "salvage", "nothing in the file can be read as memories", "restore a backup or import an export"
        )
    orgs = {record.scope.org for record in saved.records}
    found = f"{plural(len(saved.records), 'record')} of {plural(len(saved.users), 'user')} can be read"
    told = f"{found}, {plural(saved.damaged, 'row')} cannot" if saved.damaged else found
    each = "" if orgs == {"default"} else f", for each --org of {', '.join(sorted(orgs)[:5])}"
    return Check(WARN, "salvage", told, f"`recollect export --salvage saved.jsonl` writes them{each}")


async def _look_inside(memory: Memory, settings: Settings) -> AsyncIterator[Check]:
    described = memory.describe()
    store = described["store"]
    yield _version(store)
    findings = await memory.examine()
    for finding in findings:
        yield Check(finding.state, finding.name, finding.found, finding.advice)
    if "fallback" in store:
        yield Check(FAIL, "fallback", store["fallback"], "they are not kept: have the store run, then restart")
    elif DURABLE not in described["abilities"] and not findings:
        yield Check(WARN, "durability", "memories are gone when the process ends", "use a sqlite:/// URL to keep them")
    problems = await memory.check()
    if problems:
        yield Check(FAIL, "data", "; ".join(problems[:3]), "copy the file to a safe place, then restore a backup")
        if store.get("store") == "sqlite":
            yield _salvage(Path(absolute(store)))
    else:
        yield Check(OK, "data", "no damage found")
    if store.get("store") == "sqlite":
        yield _free_space(Path(absolute(store)))
    yield _meaning(str(described["embedder"]), described["other_embedders"], settings)
    if described["embedder"].startswith("openai:"):
        yield await _embeddings(settings)
    if settings.index:
        yield _index(described["vectors"])
    for check in _work(await memory.survey()):
        yield check


def _version(store: Mapping[str, Any]) -> Check:
    """Whether a store has this version's schema. A file with an earlier one is examined all the same."""
    version, newest = store.get("schema_version"), len(MIGRATIONS)
    if store.get("store") == "sqlite" and version != newest:
        found = f"{absolute(store)} opens, and has schema version {version} of {newest}"
        return Check(WARN, "store", found, f"`recollect backup` copies it as it is; then {UPGRADE}")
    return Check(OK, "store", f"{absolute(store)} opens, and its schema is up to date")


def _meaning(embedder: str, others: Sequence[str], settings: Settings) -> Check:
    """Whether search has the meaning of all memories, of some, or of none."""
    if embedder.startswith("none"):
        return Check(WARN, "embedder", "none: search finds words, not meaning", _missing(settings))
    if others:
        found = f"{embedder}; some memories are embedded by {', '.join(others)}"
        return Check(WARN, "embedder", found, "`recollect reembed` re-embeds them")
    return Check(OK, "embedder", embedder)


def _index(vectors: Mapping[str, Any]) -> Check:
    """Whether the index beside the store answers."""
    state = str(vectors.get("state", ""))
    told = f"{vectors.get('url', vectors['index'])}: {state}"
    if state == "in use":
        return Check(OK, "index", told)
    return Check(WARN, "index", told, "search works without it; start it, then run `recollect reindex`")


async def _chat_model(settings: Settings) -> Check:
    """Whether the model that is to learn from conversations answers a short question."""

    async def ask(model: Any) -> None:
        await model.answer(Ask([{"role": "user", "content": "Answer with one word: yes."}]))

    try:
        model = open_model(settings.llm, settings)
    except RecollectError as error:
        return Check(FAIL, "chat model", str(error).rstrip("."), "correct llm, llm_url or llm_key")
    advice = "the rules still learn; check llm, llm_url and llm_key"
    return await _asked("chat model", model, ask, advice)


async def _embeddings(settings: Settings) -> Check:
    """Whether the embedder's endpoint embeds a word. One that cannot be opened is reported by the embedder check."""

    async def ask(embedder: Any) -> None:
        await embedder.embed(["yes"])

    advice = "search finds words, not meaning; check embedder, embedder_url and embedder_key"
    return await _asked("embeddings", open_embedder(settings.embedder, settings), ask, advice)


async def _asked(name: str, remote: Any, ask: Callable[[Any], Awaitable[None]], advice: str) -> Check:
    """Whether the service behind an endpoint answers: the one check here that may cost something, a few words."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_S):
            await ask(remote)
    except TimeoutError:
        found = f"{remote.name} did not answer within {ANSWER_S:.0f} s"
        return Check(WARN, name, found, f"it may be starting, so try again; otherwise {advice}")
    except RecollectError as error:
        return Check(WARN, name, error.message.partition(". ")[0].rstrip("."), advice)
    finally:
        await remote.disconnect()
    return Check(OK, name, f"{remote.name} answered in {time.monotonic() - started:.1f} s")


def _missing(settings: Settings) -> str:
    """What to do about an embedder that could not be opened, in the words of its error."""
    if settings.embedder == "none":
        return "set embedder in recollect.toml, unless this is what you want"
    try:
        open_embedder(settings.embedder, settings)
    except RecollectError as error:
        return str(error).rstrip(".")
    return f"check the setting embedder ({settings.embedder})"


def absolute(store: Mapping[str, Any]) -> str:
    """Where a store is, in full: the path of its file, or else what it says of itself."""
    url = str(store.get("url", store.get("store")))
    return str(Path(url.removeprefix("sqlite:///")).absolute()) if store.get("store") == "sqlite" else url


def _free_space(path: Path) -> Check:
    free = shutil.disk_usage(path.parent).free
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < FREE_MIN_BYTES:
        return Check(FAIL, "disk", found, "free some space: the next write may fail")
    if free < FREE_LOW_BYTES:
        return Check(WARN, "disk", found, "free some space soon; erasing needs room for a copy of the file")
    return Check(OK, "disk", found)


def _work(survey: Survey) -> list[Check]:
    """Whether work is getting done, and what was given up."""
    overdue_ms = system_clock() - survey.waits_since if survey.waits_since is not None else 0
    waiting = f"{survey.jobs_waiting} waiting, {survey.jobs_running} running, {survey.jobs_scheduled} for later"
    if overdue_ms > STUCK_MS:
        hours = overdue_ms / HOUR_MS
        jobs = Check(WARN, "jobs", f"{waiting}; the oldest is {hours:.0f} h late", "run `recollect worker`")
    else:
        jobs = Check(OK, "jobs", waiting)
    failures = survey.records.get("failure", 0)
    if failures:
        return [jobs, Check(WARN, "failures", f"{failures} given up", "`recollect worker --failures` says why")]
    return [jobs, Check(OK, "failures", "none")]
