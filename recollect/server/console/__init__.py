"""The console: pages for people, at `/`, using the same verbs as the API. One file per page."""

from __future__ import annotations

from fastapi import APIRouter

from recollect.server.console import (
    chat,
    entrance,
    graph,
    memories,
    operating,
    overview,
    privacy,
    profile,
    reference,
    sessions,
    teaching,
)
from recollect.server.console.door import is_for_people, lost

__all__ = ["is_for_people", "lost", "routes"]

PAGES = (entrance, chat, sessions, memories, profile, graph, teaching, privacy, overview, operating, reference)

routes = APIRouter()
for each in PAGES:
    routes.include_router(each.routes)
