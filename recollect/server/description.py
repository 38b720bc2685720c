"""What `/openapi.json` adds to what each route says of itself: how to send a key, and the name of each call."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from recollect.server.errors import MEDIA_TYPE
from recollect.server.routing import PUBLIC

KEY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "rk_<id>_<secret>",
    "description": "A key made with `recollect keys create`. While there are none, this machine needs no key.",
}


class DescribedApp(FastAPI):
    """An application whose description says which key its calls need, and which calls need none."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = super().openapi()
            described["components"]["securitySchemes"] = {"key": KEY}
            described["security"] = [{"key": []}]
            for methods in described["paths"].values():
                for told in methods.values():
                    problems = told["responses"]["default"]
                    (shape,) = problems["content"].values()  # under the media type of the route's other responses
                    problems["content"] = {MEDIA_TYPE: shape}
                    if told.get(PUBLIC):
                        told["security"] = []
            self.openapi_schema = described
        return self.openapi_schema


def call_name(route: APIRoute) -> str:
    """The name of a call in code generated from the description: the same as its function here."""
    return route.name
