"""The entity graph, drawn: people, places and things, and how they hang together; a click walks on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.policies.graph_views import Entity, Neighbourhood, Relation
from recollect.policies.graphs import USER
from recollect.policies.layouts import layout
from recollect.server.console.door import router
from recollect.server.console.pages import page
from recollect.server.routing import Owner

routes = router()

DEPTH = 2
"""Steps around the user that are drawn first."""
DRAWN = 60
"""Entities of one picture. With more of them nobody can read any; walking shows the others."""
MARGIN = 0.09
"""Room at the edges, so that names are not cut."""
LETTER, LINE, NAME_BELOW = 0.0115, 0.036, 0.045
"""About what a letter takes of the width and a line of the height, and how far below its place a name stands."""
DOT = 0.06
"""The width of an entity itself."""
ALONG = (0.5, 0.42, 0.58, 0.34, 0.66)
"""Where on a line its words may stand; the first that covers nothing else."""
EDGE = 0.16
"""So near to an edge a name is written towards the middle."""


@dataclass(frozen=True, slots=True)
class Node:
    """An entity in the picture, at a share of its width and height."""

    id: str
    name: str
    type: str
    x: float
    y: float
    is_start: bool

    @property
    def anchor(self) -> str:
        """Which end of its name stands at the entity."""
        return "start" if self.x < EDGE else "end" if self.x > 1 - EDGE else "middle"


@dataclass(frozen=True, slots=True)
class Edge:
    """What is said of two entities, with both ends and the place of the words."""

    x1: float
    y1: float
    x2: float
    y2: float
    x: float
    y: float
    said: str


@dataclass(frozen=True, slots=True)
class GraphPage:
    """The page: the picture around one entity, and in words what is known of it."""

    start: Entity | None
    depth: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    relations: tuple[Relation, ...]
    entities: tuple[Entity, ...]


@routes.get("/users/{user}/graph")
async def graph(request: Request, owner: Owner, entity: str = USER, depth: int = DEPTH) -> Response:
    """What can be reached from an entity."""
    everything = await owner.graph.entities()
    near = Neighbourhood()
    relations: list[Relation] = []
    if everything or entity != USER:
        near = await owner.graph.neighbours(entity, depth=depth, limit=DRAWN)
        relations = await owner.graph.relations(entity, ended=True)
    nodes = tuple(_nodes(near))
    start = near.entities[0] if near.entities else None
    view = GraphPage(start, depth, nodes, tuple(_edges(near, nodes)), tuple(relations), tuple(everything))
    return page(request, "graph", view)


def _nodes(near: Neighbourhood) -> Iterator[Node]:
    order = {entity.id: place for place, entity in enumerate(near.entities)}
    places = layout(len(order), [(order[each.subject], order[each.object]) for each in near.relations])
    for entity, (x, y) in zip(near.entities, places.tolist(), strict=True):
        yield Node(entity.id, entity.name, entity.type, _inside(x), _inside(y), entity is near.entities[0])


def _inside(share: float) -> float:
    return round(MARGIN + share * (1 - 2 * MARGIN), 4)


def _edges(near: Neighbourhood, nodes: tuple[Node, ...]) -> Iterator[Edge]:
    """A line for each two entities, with all that is said of them and an arrow in its direction."""
    at = {node.id: node for node in nodes}
    said: dict[tuple[str, str], list[str]] = {}
    for relation in near.relations:
        said.setdefault((relation.subject, relation.object), []).append(relation.relation.replace("_", " "))
    taken = [_Box.around(node.name, node.x, node.y + NAME_BELOW) for node in nodes]
    taken += [_Box(node.x, node.y, DOT) for node in nodes]
    for (subject, object), words in said.items():
        a, b = at[subject], at[object]
        text = ", ".join(words)
        arrow = f"{text} →" if a.x <= b.x else f"← {text}"
        boxes = [_Box.around(arrow, a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part) for part in ALONG]
        box = min(boxes, key=lambda box: sum(box.covers(other) for other in taken))
        taken.append(box)
        yield Edge(a.x, a.y, b.x, b.y, round(box.x, 4), round(box.y, 4), arrow)


@dataclass(frozen=True, slots=True)
class _Box:
    """The room that words take, around their middle."""

    x: float
    y: float
    width: float

    @classmethod
    def around(cls, text: str, x: float, y: float) -> _Box:
        return cls(x, y, len(text) * LETTER)

    def covers(self, other: _Box) -> float:
        """How much of two lies over each other."""
        wide = (self.width + other.width) / 2 - abs(self.x - other.x)
        high = LINE - abs(self.y - other.y)
        return max(0.0, wide) * max(0.0, high)
