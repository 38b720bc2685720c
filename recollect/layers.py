"""THE TABLE: every memory layer as one row of data.

A new layer is a new row. If it needs more than a row, the table is missing a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from recollect.records import DAY_MS, HOUR_MS, Record, Scope, derived_id


@dataclass(frozen=True, slots=True)
class Layer:
    """The properties of one kind of memory.

    `scope` names the parts of the scope that are kept with a record besides org and user. `life_ms`
    is how long a record lives (None: for good); with `sliding`, each change starts its life again.
    `searched` layers are indexed by their words, `embedded` ones also by their meaning.
    `section` is the place in the prompt. `public` layers can be named by users.
    """

    name: str
    about: str
    scope: tuple[str, ...] = ()
    org_wide: bool = False
    life_ms: int | None = None
    sliding: bool = False
    searched: bool = False
    embedded: bool = False
    section: str | None = None
    public: bool = True

    def scope_of(self, scope: Scope) -> Scope:
        """The part of a scope that records of this layer keep."""
        agent = scope.agent if "agent" in self.scope else ""
        session = scope.session if "session" in self.scope else ""
        return Scope(scope.org, scope.user, agent, session)

    def head_id(self, scope: Scope, key: str = "") -> str:
        """The id of the head for a key. Heads are read by id, never searched for."""
        agent = scope.agent if "agent" in self.scope else ""
        session = scope.session if "session" in self.scope else ""
        return derived_id(self.name, agent, session, key)

    def new_head(self, scope: Scope, now: int) -> Record:
        """A head that holds nothing yet, for layers with one head in each scope."""
        return Record(self.head_id(scope), self.name, self.scope_of(scope), created_at=now)

    def expires_at(self, now: int) -> int | None:
        """When something written now expires."""
        return None if self.life_ms is None else now + self.life_ms


_ROWS = (
    Layer("conversation", "every message of a session, in order, verbatim", scope=("session", "agent"),
          life_ms=30 * DAY_MS, searched=True, embedded=True, section="recent"),
    Layer("working", "the state of the task at hand", scope=("session", "agent"),
          life_ms=24 * HOUR_MS, sliding=True, section="working"),
    Layer("episodic", "summaries of stretches of conversation", scope=("session",), searched=True, embedded=True,
          section="episodes"),
    Layer("long_term", "free-text knowledge", org_wide=True, searched=True, embedded=True, section="knowledge"),
    Layer("fact", "what is known about the user, with its history", sliding=True, searched=True,
          embedded=True, section="profile"),
    Layer("preference", "named settings of the user", sliding=True, searched=True, section="profile"),
    Layer("learning", "preferences, patterns and corrections that were learned", org_wide=True, sliding=True,
          searched=True, embedded=True, section="learnings"),
    Layer("customization", "standing instructions of a user for an agent", scope=("agent",), sliding=True,
          section="instructions"),
    Layer("entity_cache", "business objects that were recently read", org_wide=True, life_ms=HOUR_MS,
          section="entities"),
    Layer("entity", "people, places and things, with their other names", org_wide=True, sliding=True,
          searched=True, embedded=True, section="entities"),
    Layer("relation", "how entities are connected, and when", org_wide=True, sliding=True, searched=True,
          section="entities"),
    # Internal rows: they hold what the layers above need and are never requested by name.
    Layer("session", "title and parent of a session", scope=("session",), public=False),
    Layer("summary", "the running summary of a session", scope=("session",), life_ms=30 * DAY_MS,
          sliding=True, section="summary", public=False),
    Layer("past", "what a record was before it was changed", public=False),
    Layer("failure", "work that was given up, with the reason", public=False),
    Layer("seal", "guards work that reads messages: it is refused if some were set aside meanwhile", life_ms=HOUR_MS,
          public=False),
    Layer("reading", "how far a model has read a session", scope=("session",), public=False),
    Layer("spending", "what a model has cost an org today", org_wide=True, public=False),
    Layer("fence", "guards work across two stores: it is refused if what it depends on was dropped meanwhile",
          public=False),
    Layer("key", "who may call the server: the hash of a key, and what it allows", public=False),
    Layer("seat", "who signed out of the console before their cookie expired", public=False),
    Layer("quota", "what an org has used of the server today", public=False),
)  # fmt: skip

LAYERS: dict[str, Layer] = {row.name: row for row in _ROWS}
PUBLIC_LAYERS = tuple(row.name for row in _ROWS if row.public)
SEARCHED_LAYERS = tuple(row.name for row in _ROWS if row.searched)
EMBEDDED_LAYERS = tuple(row.name for row in _ROWS if row.embedded)
FACT_LAYERS = ("fact", "preference")
GRAPH_LAYERS = ("entity", "relation")
LASTING = ("instructions", "profile", "learnings", "summary")
"""Sections of a prompt that seldom change."""
SECTIONS = (*LASTING, "recent", "episodes", "knowledge", "entities", "working")
"""The order of a prompt: what seldom changes, then the messages, which are only appended to, then what was found for
this question. Providers' prompt caches hold the beginning of a prompt up to its first change."""


def told_counts(records: Mapping[str, int]) -> dict[str, int]:
    """Record counts by layer, as reported to people: what they stored, without internal rows."""
    return {layer: records[layer] for layer in PUBLIC_LAYERS if layer in records}


def with_lives(lives_ms: dict[str, int | None]) -> dict[str, Layer]:
    """The table with other lifetimes, as a deployment may set them."""
    return {name: replace(row, life_ms=lives_ms.get(name, row.life_ms)) for name, row in LAYERS.items()}


def own_data(record: Record) -> Mapping[str, Any]:
    """The data of a record; of one in the layer `past`, the data that the record had before it was changed."""
    data: Mapping[str, Any] = record.data["data"] if record.layer == "past" else record.data
    return data


def is_current(record: Record, now: int) -> bool:
    """Whether it is not ended, merged into another, retired or set aside: search and context may show it."""
    return (record.valid_to is None or record.valid_to > now) and record.trust != "quarantined"
