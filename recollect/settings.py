"""Every setting with its default and the reason for it; only this module reads the file and the environment.

Precedence: what is passed in code, then `RECOLLECT_*` variables, then `recollect.toml`, then the
defaults below.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from recollect.errors import ValidationError

FILE_NAME = "recollect.toml"
PREFIX = "RECOLLECT_"
TABLES = ("agents", "orgs")
"""Tables of the file that have their own shape and are read by the code that needs them."""
QUALITIES, RERANKERS = ("fast", "best"), ("large", "small")


@dataclass(frozen=True, slots=True)
class Settings:
    """How one instance of Recollect behaves. Prefer a good default to a new setting."""

    url: str = "sqlite:///recollect.db"
    """Where memories are kept."""
    layers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Layers that are kept elsewhere, each with its URL: a table in the file, `working=redis://...,conversation=...`
    in the environment. Possible for `conversation`, `working` and `entity_cache`."""
    fallback: str = ""
    """`memory`: if a store cannot be reached at startup, continue in memory, with a warning. For development."""
    index: str = field(default="", repr=False)
    """A vector index beside the store: `chroma:///FOLDER` or `chroma+http://HOST:PORT`. Empty: only our own."""
    embedder: str = "static"
    """`static` (in the package, no download), `minilm` (after `recollect models build`), `onnx:FOLDER`,
    `fastembed:MODEL`, `openai:MODEL` (any compatible endpoint; `openai:MODEL@512` asks for 512 numbers) or `none`."""
    embedder_before: str = "static"
    """The embedder used before a change: its memories stay findable by meaning until `recollect reembed`."""
    embedder_url: str = "https://api.openai.com/v1"
    """The endpoint of an `openai:` embedder, without `/embeddings`."""
    embedder_key: str = field(default="", repr=False)
    """The key for that endpoint; empty: `OPENAI_API_KEY`, if it is set."""
    models: str = "~/.local/share/recollect/models"
    """Where `recollect models build` keeps models; under `XDG_DATA_HOME` if that is set."""
    quality: str = "fast"
    """`fast`, or `best`: the reranker scores the first hits again (`pip install ./rerank` in a clone)."""
    reranker: str = "large"
    """Which reranker: `large`, or `small`, which takes less than half the time and finds a little less."""
    language: str = "en"
    """What people talk in, for search: `en`, `de`, `fr`, `es`, `it`, `pt`, `nl`, `sv`, `da`, `no`, `fi`, `ru` or `pl`;
    21 others have stems alone, and any other code is neutral, as is `none`."""
    model: str = ""
    """Name of the chat model whose tokens are counted; empty: a cautious estimate."""
    llm: str = ""
    """A chat model that learns more than the rules do: `openai:MODEL` (any compatible endpoint); empty: rules alone."""
    llm_url: str = "https://api.openai.com/v1"
    """The endpoint of that model, without `/chat/completions`. Set only here or in code: no request can name it."""
    llm_key: str = field(default="", repr=False)
    """The key for that endpoint; empty: `OPENAI_API_KEY`, if it is set."""
    llm_timeout_s: float = 60.0
    """How long one answer of the model may take; the job that waits for it is retried later."""
    llm_tokens_per_day: int = 1_000_000
    """Tokens each org may spend on the model per day (UTC), counted in the store for all workers; the rest waits."""
    llm_at_once: int = 4
    """Requests to the model that one process has open at once: with more, endpoints answer more slowly, or refuse."""
    llm_batch_s: float = 30.0
    """How long turns of a session are collected before the model reads them together."""
    llm_rewrite: bool = False
    """Let the model also rephrase questions before they are searched for; it has two seconds."""
    worker: bool = True
    """Enrich inside this process. Switch it off if `recollect worker` runs alongside."""
    busy_timeout_s: float = 10.0
    """How long a write waits for another process that holds the file."""
    conversation_days: int | None = None
    """How long messages live. Not set: as long as the store proposes (7 days on Redis), else 30."""
    working_hours: int = 24
    """How long a working state lives after its last change."""
    lives: Mapping[str, str] = field(default_factory=dict)
    """How long layers live, and the two above if they are named here: a table in the file, `episodic=365d,fact=104w` in
    the environment, `kept` for good. A life begins when something is stored; that of facts, preferences, learnings,
    customizations, entities and relations begins again with each change."""
    window_strategy: str = "sliding_window_summary"
    """How to choose the window of a conversation that goes into a context."""
    window_messages: int = 50
    """Messages in a window by count: what chat APIs usually send along."""
    window_turns: int = 10
    """Turns in a window by turns."""
    window_tokens: int = 4_000
    """Tokens in a window by tokens, and the length beyond which history is folded into the summary."""
    summary_tokens: int = 500
    """Tokens that a running summary may have: an eighth of the window it precedes."""
    learn: bool = True
    """Learn facts, preferences, corrections and entities from what users say."""
    masking: str = ""
    """What is masked before anything is stored: `secrets`, `personal`, both, or single kinds; empty: nothing."""
    episode_idle_minutes: int = 120
    """A session that is idle this long becomes an episode: lunch does not end a conversation, a night does."""
    lease_s: float = 60.0
    """How long a claimed job is hidden; the worker running it extends this."""
    poll_s: float = 1.0
    """How often an idle worker looks for jobs that other processes left behind."""
    claim_jobs: int = 32
    """Jobs a worker claims at a time."""
    job_timeout_s: float = 120.0
    """How long one attempt at a job may take before it counts as failed."""
    job_attempts_max: int = 5
    """Attempts before a job becomes a visible failure."""
    retry_s: float = 2.0
    """Wait before the first retry; it doubles with each one."""
    index_mib: int = 512
    """Memory for the indexes of recently used partitions."""
    index_awake: int | None = None
    """Partitions whose indexes stay ready for the next query; the others are packed, and take a third of the memory.
    Not set: 1,000, or 8 in a server."""
    learnings_in_prompt: int = 5
    """Learnings that go into a context, the most used first: more of them are seldom followed."""
    learnings_above: float = 0.7
    """Confidence that a learning must exceed to go into a context."""
    memories_max: int = 100_000
    """Long-term memories a user may keep before pruning removes the least useful."""
    prune_score: float = 0.15
    """Retention score below which an old memory is retired."""
    prune_age_days: int = 180
    """Nothing younger than this is pruned for its score."""
    learnings_max: int = 1_000
    """Learnings a user or an org may keep before pruning removes the least useful: a prompt has room for five."""
    prune_learning_score: float = 0.35
    """Score below which an old learning is retired."""
    consolidate: bool = True
    """Once a day: idle sessions become episodes, what recurs in them becomes knowledge, and duplicates are merged."""
    prune: bool = True
    """Once a day: memories and learnings that are old, unimportant and unused are retired, with the reason."""
    host: str = "127.0.0.1"
    """The address the server listens on; without keys, this machine only."""
    port: int = 8765
    """The port the server listens on."""
    workers: int = 1
    """Server processes, which share the port and the store."""
    console_secret: str = field(default="", repr=False)
    """Signs the cookies of the console; the same for all servers behind one name. Empty: a new one at every start."""
    requests_per_day: int | None = None
    """Requests that one org may send to the server per day; not set: no limit, as for the next two."""
    memories_per_day: int | None = None
    """Messages and memories that one org may add per day."""
    bytes_per_day: int | None = None
    """Bytes that one org may send per day."""
    tracing: bool = False
    """Send traces of the server to OpenTelemetry (`pip install "recollect[otel]"`); `OTEL_*` variables say where."""
    requests_per_minute: int = 1_200
    """Requests per minute that one API key may send to the server; ten seconds' worth may come at once."""

    @classmethod
    def read(cls, environ: Mapping[str, str], folder: Path | None = None) -> Settings:
        """Defaults, then `recollect.toml` in the folder, then `RECOLLECT_*` variables."""
        values = _from_others(environ)
        values.update({name: value for name, value in read_file(folder).items() if name not in TABLES})
        values.update({name.removeprefix(PREFIX).lower(): environ[name] for name in variables_in(environ)})
        return cls().with_(values)

    def with_(self, values: Mapping[str, Any]) -> Settings:
        """A copy with other values, each checked; an unknown name is an error."""
        return replace(self, **{name: _parsed(name, value) for name, value in values.items()})


def read_file(folder: Path | None = None) -> dict[str, Any]:
    """Everything in the `recollect.toml` of the folder; empty if there is no such file."""
    path = (folder or Path()) / FILE_NAME
    if not path.is_file():
        return {}
    written = path.read_bytes()
    try:
        return tomllib.loads(written.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValidationError(f"{FILE_NAME} cannot be read as TOML: {error}", field="settings") from error
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        raise ValidationError(f"{FILE_NAME} must be UTF-8, but line {line} is not", field="settings") from error


def variables_in(environ: Mapping[str, str]) -> list[str]:
    """The names of the variables that are read as settings."""
    return [name for name in environ if name.startswith(PREFIX) and name.removeprefix(PREFIX).lower() in _TYPES]


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that match no setting, each with the one that was probably meant.

    >>> misspelt({"RECOLLECT_CONVERSTION_DAYS": "365", "RECOLLECT_URL": "memory://", "RECOLLECT_DEBUG": "1"})
    {'RECOLLECT_CONVERSTION_DAYS': 'RECOLLECT_CONVERSATION_DAYS'}
    """
    names = {name: name.removeprefix(PREFIX).lower() for name in environ if name.startswith(PREFIX)}
    near = {name: get_close_matches(meant, _TYPES, n=1, cutoff=0.8) for name, meant in names.items()}
    return {name: PREFIX + found[0].upper() for name, found in near.items() if found and found[0] != names[name]}


def _from_others(environ: Mapping[str, str]) -> dict[str, Any]:
    """Values from well-known variables of other software; anything set for Recollect itself overrides them."""
    values: dict[str, Any] = {}
    if data := environ.get("XDG_DATA_HOME"):
        values["models"] = f"{data}/recollect/models"
    if key := environ.get("OPENAI_API_KEY"):
        values |= {"embedder_key": key, "llm_key": key}
    return values


_LAYER = re.compile(r"(?:^|,)\s*([a-z_]+)=(?=[a-z+]+://)")
"""Where the next layer begins: URLs may contain commas and equals signs, but not in this form before another URL."""


def _layers(value: Any) -> dict[str, str]:
    """Layers and their URLs, from a table or from one line of text."""
    if isinstance(value, str):
        before, *parts = _LAYER.split(value.strip())
        value = dict(zip(parts[::2], parts[1::2], strict=True)) if not before else None
    if not isinstance(value, Mapping) or not all(isinstance(url, str) and url for url in value.values()):
        raise ValidationError("must name a URL for each layer, as working=redis://localhost", field="layers")
    return {str(name): url for name, url in value.items()}


def _lives(value: Any) -> dict[str, str]:
    """Layers and their lifetimes, from a table or from one line of text."""
    if isinstance(value, str):
        pairs = [each.partition("=") for each in value.split(",")]
        value = {name.strip(): life.strip() for name, _, life in pairs}
    if not isinstance(value, Mapping) or not all(isinstance(life, str) and life for life in value.values()):
        raise ValidationError("must name a lifetime for each layer, as episodic=365d", field="lives")
    return {str(name): life for name, life in value.items()}


_READ = {"str": str, "bool": bool, "int": int, "float": float, "int | None": int, "Mapping[str, str]": dict}
_TYPES: dict[str, type] = {item.name: _READ[str(item.type)] for item in fields(Settings)}
_SAID = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_MAY_BE_UNSET = frozenset(item.name for item in fields(Settings) if item.default is None)


def _parsed(name: str, value: Any) -> Any:
    wanted = _TYPES.get(name)
    if wanted is None:
        near = get_close_matches(name, _TYPES, n=3)
        known = f"did you mean {' or '.join(near)}?" if near else f"the settings are {', '.join(_TYPES)}"
        raise ValidationError(f"unknown setting; {known}", field=name)
    if value is None and name in _MAY_BE_UNSET:
        return None
    if wanted is dict:
        return _layers(value) if name == "layers" else _lives(value)
    try:
        if wanted is bool and isinstance(value, str):
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if isinstance(value, bool) != (wanted is bool) or (wanted is str and not isinstance(value, str)):
            raise TypeError
        parsed = wanted(value)
        if (wanted is int and isinstance(value, float)) or (wanted is float and not math.isfinite(parsed)):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise ValidationError(f"must be {_SAID[wanted]}", field=name) from error
    if (wanted in (int, float) and not parsed > 0) or (name in ("url", "embedder") and not parsed):
        raise ValidationError("must not be empty, zero or negative", field=name)
    return parsed
