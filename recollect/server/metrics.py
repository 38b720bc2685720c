"""Figures for operators, in the text format of Prometheus: counts, a histogram of requests by route, gauges."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a read of the embedded store to a model that takes its time."""
ANSWERABLE = 0.5
"""From here on a context more likely holds an answer than not."""

COUNTS = {
    "adds": "Messages and memories that were added.",
    "searches": "Searches that were answered.",
    "contexts": "Contexts that were built.",
    "context_tokens": "Tokens of the contexts that were built.",
    "contexts_answerable": "Contexts that likely held an answer to what was asked.",
    "turns": "Turns of /api/chat that were answered.",
}
"""What is counted, by name."""

Labels = tuple[tuple[str, str], ...]


class Gauge(NamedTuple):
    """A figure as it stands now."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = {}
    kind: str = "gauge"


class Latency(NamedTuple):
    """How long the requests of a route took: half of them, and all but one in twenty, at most so many seconds."""

    method: str
    route: str
    requests: int
    p50_s: float
    p95_s: float


class Metrics:
    """The figures of one server. Nothing in them names a user or says what was said."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._durations: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def count(self, name: str, by: int = 1) -> None:
        """Count something that is in the table above."""
        assert name in COUNTS
        self._counts[name] += by

    def count_context(self, tokens: int, answerable: float) -> None:
        """Count a context that was built: its tokens, and whether it likely held an answer."""
        self.count("contexts")
        self.count("context_tokens", tokens)
        self.count("contexts_answerable", int(answerable >= ANSWERABLE))

    def total(self, name: str) -> int:
        """What a count has come to since the server was started."""
        return self._counts[name]

    def latencies(self) -> list[Latency]:
        """How long requests took by route, those that were asked most first."""
        by_route: dict[tuple[str, str], list[int]] = {}
        for labels, held in self._durations.items():
            named = dict(labels)
            row = by_route.setdefault((named["method"], named["route"]), [0] * len(held))
            row[:] = [old + new for old, new in zip(row, held, strict=True)]
        found = [Latency(*at, sum(row), _quantile(row, 0.5), _quantile(row, 0.95)) for at, row in by_route.items()]
        return sorted(found, key=lambda each: -each.requests)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note that a request was answered."""
        labels = (("method", method), ("route", route), ("status", str(status)))
        held = self._durations.setdefault(labels, [0] * (len(BUCKETS_S) + 1))
        held[bisect_left(BUCKETS_S, seconds)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def text(self, gauges: Iterable[Gauge]) -> str:
        """All figures, one a line."""
        lines = [line for name in COUNTS for line in self._counter(name)]
        lines += self._histogram()
        told: set[str] = set()
        for gauge in gauges:
            if gauge.name not in told:
                lines += _head(gauge.name, gauge.about, gauge.kind)
                told.add(gauge.name)
            lines.append(_line(gauge.name, tuple(gauge.labels.items()), gauge.value))
        return "\n".join(lines) + "\n"

    def _counter(self, name: str) -> list[str]:
        full = f"recollect_{name}_total"
        return [*_head(full, COUNTS[name], "counter"), _line(full, (), self._counts[name])]

    def _histogram(self) -> Iterator[str]:
        name = "recollect_request_duration_seconds"
        yield from _head(name, "How long requests took, by route.", "histogram")
        for labels, held in self._durations.items():
            total = 0
            for edge, count in zip((*map(str, BUCKETS_S), "+Inf"), held, strict=True):
                total += count
                yield _line(f"{name}_bucket", (*labels, ("le", edge)), total)
            yield _line(f"{name}_sum", labels, self._sums[labels])
            yield _line(f"{name}_count", labels, total)


def _quantile(held: list[int], share: float) -> float:
    """The time within which a share of requests was answered: a straight line inside of its bucket."""
    wanted, below, start = sum(held) * share, 0, 0.0
    for edge, count in zip((*BUCKETS_S, BUCKETS_S[-1]), held, strict=True):
        if count and below + count >= wanted:
            return start + (edge - start) * (wanted - below) / count
        below, start = below + count, edge
    return BUCKETS_S[-1]


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
