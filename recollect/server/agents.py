"""The assistants behind `/api/chat`, by name, as `recollect.toml` describes them.

    [agents.support]
    prompt = "You are the support assistant of Acme."
    url = "https://api.openai.com/v1"
    model = "gpt-4o-mini"
    layers = ["conversation", "fact", "preference"]
    sections = ["profile", "recent"]
    window = 20
    tools = ["search_memory"]

An agent without a `url` answers from memory and needs no model; it reveals only what its table lets it see.
`default` answers when no agent is named; it always exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from recollect import validate
from recollect.context_policy import ContextPolicy
from recollect.errors import ValidationError

DEFAULT = "default"
FREE = ContextPolicy()
PROMPT_BYTES = 16 * 1024
"""A prompt is a few pages at most: it precedes everything else in every turn."""
TOOLS = (
    "search_memory",
    "get_profile",
    "list_sessions",
    "add_memory",
    "add_fact",
    "update_preference",
    "add_learning",
)
"""What a model may be allowed to do with the memory of the user it talks to. Only people may forget things, because
a model can be talked into it, and it cannot be undone."""
DEFAULT_PROMPT = "You are a helpful assistant. What you remember about the user is given below; use it where it helps."


@dataclass(frozen=True, slots=True)
class Agent:
    """How one assistant is set up."""

    name: str
    prompt: str = DEFAULT_PROMPT
    """What the model is told before anything else."""
    url: str = ""
    """The address of an OpenAI-compatible endpoint, without `/chat/completions`; if empty, it answers from memory."""
    model: str = ""
    """The model to ask for."""
    max_tokens: int = 1_000
    """The longest answer."""
    context_tokens: int = 4_000
    """The size of its context: the recent conversation and what is remembered, counted as its model counts tokens."""
    layers: tuple[str, ...] = ()
    """The layers that the context is taken from; all of them if none is named."""
    sections: tuple[str, ...] = ()
    """The sections of its context; all of them if none is named."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The most that a section may take of its context, by name: `{recent = 0.3}`."""
    window: int = 0
    """How many of the newest messages it gets at most; 0 means as many as fit."""
    quality: str = ""
    """`fast`, or `best` with the reranker; if empty, as the settings say."""
    tools: tuple[str, ...] = ()
    """The tools its model may call on its own; none unless they are named."""
    timeout_s: float = 60.0
    """How long to wait for each part of an answer."""
    key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the endpoint's key. The key itself does not belong in the file."""
    key: str = field(default="", repr=False)
    policy: ContextPolicy = FREE
    """Layers, sections, shares, window and quality as one value."""


def read_agents(tables: Any, environ: Mapping[str, str]) -> dict[str, Agent]:
    """Read and check the agents of a file's `[agents.*]` tables; the default one is always among them."""
    if not isinstance(tables, Mapping):
        raise ValidationError("must be tables, such as [agents.support]", field="agents")
    found = {name: _agent(name, table, environ) for name, table in tables.items()}
    return {DEFAULT: Agent(DEFAULT)} | found


def _agent(name: str, table: Any, environ: Mapping[str, str]) -> Agent:
    here = f"agents.{name}"
    validate.identifier(name, "agents")
    known = {item.name: item.type for item in fields(Agent) if item.name not in ("name", "key", "policy")}
    if not isinstance(table, Mapping) or not set(table) <= set(known):
        raise ValidationError(f"must be a table of {', '.join(known)}", field=here)
    for key, value in table.items():
        _check(value, str(known[key]), f"{here}.{key}")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    agent = replace(Agent(name), **given)
    validate.text(agent.prompt, f"{here}.prompt", PROMPT_BYTES)
    validate.tokens_max(agent.context_tokens, f"{here}.context_tokens")
    if agent.url and not (agent.url.startswith(("http://", "https://")) and agent.model):
        raise ValidationError("must be an http:// or https:// URL, with the model to use", field=f"{here}.url")
    _check_tools(agent, here)
    key = environ.get(agent.key_variable, "") if agent.url else ""
    if not key.isascii() or (key and not key.isprintable()):
        raise ValidationError("must be printable ASCII, as it goes into a header", field=agent.key_variable)
    return replace(agent, key=key, policy=_policy(agent, here))


def _policy(agent: Agent, here: str) -> ContextPolicy:
    """Which part of the memory the agent is given."""
    given = {each.name: getattr(agent, each.name) for each in fields(ContextPolicy)}
    return ContextPolicy.read({name: value for name, value in given.items() if value}, here)


def _check_tools(agent: Agent, here: str) -> None:
    """Check what the agent may do."""
    if not set(agent.tools) <= set(TOOLS):
        raise ValidationError(f"must be some of {', '.join(TOOLS)}", field=f"{here}.tools")
    if agent.tools and not agent.url:
        raise ValidationError("need a model that can call them: give its url", field=f"{here}.tools")
    if agent.model and not agent.url:
        raise ValidationError("needs an endpoint: give its url", field=f"{here}.model")


def _check(value: Any, kind: str, field: str) -> None:
    if kind.startswith("Mapping"):
        validate.shares(value, field)
        return
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValidationError("must be a list of texts", field=field)
        return
    if kind == "str" and isinstance(value, str):
        return
    number = isinstance(value, int if kind == "int" else int | float) and not isinstance(value, bool)
    if kind == "str" or not number or not 0 < value < 1e9:
        raise ValidationError(f"must be {'text' if kind == 'str' else 'a number above zero'}", field=field)
