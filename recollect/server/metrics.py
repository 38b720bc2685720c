"""Metrics for operators, in the text format of Prometheus: counters, histograms, gauges.

Each process has its own; `Shared` lets each process of a server report the sum over all of them.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "recollect_"
ANSWERABLE = 0.5
"""From this value on, a context is more likely than not to hold an answer."""

COUNTS = {
    "adds": "Messages and memories that were added.",
    "searches": "Searches that were answered.",
    "contexts": "Contexts that were built.",
    "context_tokens": "Tokens of the contexts that were built.",
    "contexts_answerable": "Contexts that likely held an answer to what was asked.",
    "turns": "Turns of /api/chat that were answered.",
    "refused": "Requests refused unread, by reason: server overloaded (busy), or caller over its rate (rate).",
    "cache_lookups": "Cache look-ups, by cache and result.",
    "jobs_ended": "Jobs that ended, by outcome.",
    "jobs_run": "Jobs that were run, by kind; every attempt counts.",
    "model": "Questions to the chat model, tokens in both directions, and findings that were refused.",
    "enrichment_seconds": "Time spent on jobs, by kind.",
}
"""What is counted, by name; each is shown as `recollect_NAME_total`."""

SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""From an in-memory look-up to a store in trouble."""
USUAL_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a read of the embedded store to a slow model."""
LONG_S = (1.0, 10.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 14_400.0)
"""From a question to an afternoon."""
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "request_duration_seconds": ("How long requests took, by route.", USUAL_S),
    "store_duration_seconds": ("How long the store took, by verb.", SHORT_S),
    "executor_life_seconds": ("Time from the first turn of an executor of /api/chat to its last.", LONG_S),
    "session_life_seconds": ("Time from the first turn of a session of /api/chat to its last.", LONG_S),
}
"""What is measured, by name, with the edges of its buckets."""

Labels = tuple[tuple[str, str], ...]


class Gauge(NamedTuple):
    """A value as it stands now."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = {}


class Latency(NamedTuple):
    """How many seconds the requests of a route took: half at most `p50_s`, all but one in twenty at most `p95_s`."""

    method: str
    route: str
    requests: int
    p50_s: float
    p95_s: float


class Metrics:
    """The metrics of one process. Nothing in them names a user or reveals what was said."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Labels]] = {name: Counter() for name in COUNTS}
        self._buckets: dict[str, dict[Labels, list[int]]] = {name: {} for name in HISTOGRAMS}
        self._sums: dict[str, Counter[Labels]] = {name: Counter() for name in HISTOGRAMS}

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to one of `COUNTS`."""
        self._counts[name][tuple(labels.items())] += by  # type: ignore[assignment]

    def count_context(self, tokens: int, answerable: float) -> None:
        """Count a context that was built: its tokens, and whether it likely held an answer."""
        self.count("contexts")
        self.count("context_tokens", tokens)
        self.count("contexts_answerable", int(answerable >= ANSWERABLE))

    def total(self, name: str) -> int:
        """The total of a count since the process started."""
        return int(sum(self._counts[name].values()))

    def latencies(self) -> list[Latency]:
        """How long requests took by route, the busiest routes first."""
        by_route: dict[tuple[str, str], list[int]] = {}
        for labels, held in self._buckets["request_duration_seconds"].items():
            named = dict(labels)
            row = by_route.setdefault((named["method"], named["route"]), [0] * len(held))
            row[:] = [old + new for old, new in zip(row, held, strict=True)]
        found = [Latency(*at, sum(row), _quantile(row, 0.5), _quantile(row, 0.95)) for at, row in by_route.items()]
        return sorted(found, key=lambda each: -each.requests)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set one of `COUNTS` that is counted elsewhere."""
        self._counts[name][tuple(labels.items())] = value  # type: ignore[assignment]

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record how long something took or lived."""
        key = tuple(labels.items())
        edges = HISTOGRAMS[name][1]
        held = self._buckets[name].get(key)
        if held is None:
            held = self._buckets[name][key] = [0] * (len(edges) + 1)
        held[bisect_left(edges, seconds)] += 1
        self._sums[name][key] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[Gauge]) -> str:
        """All metrics, one per line."""
        lines = [line for name in COUNTS for line in self._counter(name)]
        lines += [line for name in HISTOGRAMS for line in self._histogram(name)]
        told: set[str] = set()
        for gauge in gauges:
            full = PREFIX + gauge.name
            if gauge.name not in told:
                lines += _head(full, gauge.about, "gauge")
                told.add(gauge.name)
            lines.append(_line(full, tuple(gauge.labels.items()), gauge.value))
        return "\n".join(lines) + "\n"

    def _counter(self, name: str) -> Iterator[str]:
        full = f"{PREFIX}{name}_total"
        yield from _head(full, COUNTS[name], "counter")
        for labels, count in (self._counts[name] or {(): 0}).items():
            yield _line(full, labels, count)

    def _histogram(self, name: str) -> Iterator[str]:
        full = PREFIX + name
        about, edges = HISTOGRAMS[name]
        yield from _head(full, about, "histogram")
        for labels, held in self._buckets[name].items():
            total = 0
            for edge, count in zip((*map(str, edges), "+Inf"), held, strict=True):
                total += count
                yield _line(f"{full}_bucket", (*labels, ("le", edge)), total)
            yield _line(f"{full}_sum", labels, self._sums[name][labels])
            yield _line(f"{full}_count", labels, total)

    # ── several processes ────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "counts": {name: [[*pair] for pair in held.items()] for name, held in self._counts.items()},
            "buckets": {name: [[*pair] for pair in held.items()] for name, held in self._buckets.items()},
            "sums": {name: [[*pair] for pair in held.items()] for name, held in self._sums.items()},
        }

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the metrics of another process, as returned by `to_dict`."""
        for mine, theirs in ((self._counts, other["counts"]), (self._sums, other["sums"])):
            for name, pairs in theirs.items():
                for labels, value in pairs:
                    mine[name][_labels(labels)] += value
        for name, pairs in other["buckets"].items():
            for labels, counts in pairs:
                held = self._buckets[name].setdefault(_labels(labels), [0] * len(counts))
                held[:] = [mine + more for mine, more in zip(held, counts, strict=True)]


class Shared:
    """A folder through which the processes of one server share their metrics."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{os.getpid()}.json"

    def leave(self, metrics: Metrics) -> None:
        """Write this process's metrics as they are now. They stay when it is gone, so that counts never go down."""
        draft = self._own.with_suffix(".new")
        draft.write_text(json.dumps(metrics.to_dict()), encoding="utf-8")
        draft.replace(self._own)

    def of_all(self, metrics: Metrics) -> Metrics:
        """The metrics of this process and all others, added up."""
        total = Metrics()
        total.add(metrics.to_dict())
        for path in self._folder.glob("*.json"):
            if path != self._own:
                total.add(json.loads(path.read_text(encoding="utf-8")))
        return total


def _labels(pairs: Any) -> Labels:
    return tuple((str(name), str(value)) for name, value in pairs)


def _quantile(held: list[int], share: float) -> float:
    """The time within which a share of requests was answered, interpolated linearly within its bucket."""
    wanted, below, start = sum(held) * share, 0, 0.0
    for edge, count in zip((*USUAL_S, USUAL_S[-1]), held, strict=True):
        if count and below + count >= wanted:
            return start + (edge - start) * (wanted - below) / count
        below, start = below + count, edge
    return USUAL_S[-1]


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
