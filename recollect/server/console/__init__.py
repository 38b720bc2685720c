"""The console: pages for people, at `/`, over the verbs that the interface has. One file a page."""

from __future__ import annotations

from fastapi import APIRouter

from recollect.server.console import chat, entrance, graph, memories, profile

PAGES = (entrance, chat, memories, profile, graph)

routes = APIRouter()
for each in PAGES:
    routes.include_router(each.routes)
