"""Pictures of an entity graph: DOT for other tools, SVG for a browser.

The same graph always gives the same picture.
"""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from recollect.policies.fencing import shown
from recollect.policies.graph_views import Entity, Neighbourhood, said_between
from recollect.policies.layouts import layout

LABEL_CHARS = 32
"""Longer names would run into each other; the whole name is in the tooltip."""
DRAWN_MAX = 300
"""Entities in one picture. With more of them, none could be read."""
ROOM, MARGIN = 170, 90
"""Pixels for each entity along a side, and around all of them."""
RADIUS, BESIDE = 9, 7
"""Radius of a node, and how far a label stands beside its line."""

_STYLE = """
  svg { font: 13px system-ui, sans-serif; background: #fff; color: #222; }
  .node { fill: #3b6ea8; } .kind { fill: #777; font-size: 11px; }
  .edge { stroke: #999; stroke-width: 1.2; fill: none; } .said { fill: #555; font-size: 11px; }
  text { fill: currentColor; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181c; color: #e6e6e6; } .node { fill: #7fb0e6; } .edge { stroke: #777; }
    .said, .kind { fill: #aaa; } text { stroke: #16181c; }
  }
"""
_ARROW = (
    '<defs><marker id="to" markerWidth="9" markerHeight="6" refX="8" refY="3" orient="auto">'
    '<path class="node" d="M0,0 L8,3 L0,6 z"/></marker></defs>'
)


def to_dot(graph: Neighbourhood) -> str:
    """The graph in the language of Graphviz."""
    graph = _drawn(graph)
    lines = [f"  {_quoted(entity.id)} [label={_quoted(_label(entity.name))}];" for entity in graph.entities]
    lines += [f"  {_quoted(a)} -> {_quoted(b)} [label={_quoted(said)}];" for a, b, said in _edges(graph)]
    return "\n".join(["digraph memory {", "  rankdir=LR;", "  node [shape=box, style=rounded];", *lines, "}"]) + "\n"


def to_svg(graph: Neighbourhood) -> str:
    """The graph as a picture that fits light and dark pages."""
    graph = _drawn(graph)
    order = {entity.id: place for place, entity in enumerate(graph.entities)}
    edges = _edges(graph)
    side = MARGIN * 2 + int(ROOM * max(1.0, len(order) ** 0.5))
    places = layout(len(order), [(order[a], order[b]) for a, b, _ in edges]) * (side - 2 * MARGIN) + MARGIN
    lines = [_edge(places[order[a]], places[order[b]], said) for a, b, said in edges]
    lines += [_node(places[order[entity.id]], entity) for entity in graph.entities]
    box = f'viewBox="0 0 {side} {side}" width="{side}" height="{side}"'
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">', "<title>How they are connected</title>"]
    return "\n".join([*head, f"<style>{_STYLE}</style>", _ARROW, *lines, "</svg>"]) + "\n"


def _drawn(graph: Neighbourhood) -> Neighbourhood:
    """As much of the graph as a picture can show: the entities with the most relations, in their original order."""
    if len(graph.entities) <= DRAWN_MAX:
        return graph
    degree = dict.fromkeys((entity.id for entity in graph.entities), 0)
    for relation in graph.relations:
        degree[relation.subject] += 1
        degree[relation.object] += 1
    kept = set(sorted(degree, key=lambda id: -degree[id])[:DRAWN_MAX])
    return Neighbourhood(
        tuple(entity for entity in graph.entities if entity.id in kept),
        tuple(each for each in graph.relations if each.subject in kept and each.object in kept),
    )


def _edges(graph: Neighbourhood) -> list[tuple[str, str, str]]:
    """From, to, and everything that relates the two in this direction."""
    return [(a, b, _label(words)) for (a, b), words in said_between(graph).items()]


def _label(text: str) -> str:
    return shown(text, LABEL_CHARS)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _node(place: NDArray[np.float64], entity: Entity) -> str:
    x, y = place.round(1)
    kind = "" if entity.type == "thing" else escape(_label(entity.type.replace("_", " ")))
    also = f" ({', '.join(entity.aliases)})" if entity.aliases else ""
    return (
        f"<g><title>{escape(shown(entity.name + also, 400))}</title>"
        f'<circle class="node" cx="{x}" cy="{y}" r="{RADIUS}"/>'
        f'<text x="{x}" y="{y - RADIUS - 5:.1f}">{escape(_label(entity.name))}</text>'
        f'<text class="kind" x="{x}" y="{y + RADIUS + 13:.1f}">{kind}</text></g>'
    )


def _edge(start: NDArray[np.float64], end: NDArray[np.float64], said: str) -> str:
    along = end - start
    length = float(np.linalg.norm(along))
    if length < 1:  # to itself: a loop beside the node
        x, y = start.round(1)
        line = f'<path class="edge" marker-end="url(#to)" d="M{x},{y} c40,-30 40,30 4,4"/>'
        return f'{line}<text class="said" x="{x + 44:.1f}" y="{y:.1f}">{escape(said)}</text>'
    tip = end - along / length * (RADIUS + 3)
    # Left of the line, seen in its direction, so that labels there and back do not cover each other.
    middle = start + along * 0.4 + np.array([along[1], -along[0]]) / length * BESIDE
    return (
        f'<path class="edge" marker-end="url(#to)" d="M{start[0]:.1f},{start[1]:.1f} L{tip[0]:.1f},{tip[1]:.1f}"/>'
        f'<text class="said" x="{middle[0]:.1f}" y="{middle[1]:.1f}">{escape(said)}</text>'
    )
