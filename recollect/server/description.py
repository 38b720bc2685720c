"""What `/openapi.json` says beside what each route says of itself: how a key is shown, and what each call is named."""

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
    "description": "A key as `recollect keys create` makes it. While there are none, this machine needs none.",
}


class DescribedApp(FastAPI):
    """An application whose description names the key that its calls need, and those that need none."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = super().openapi()
            described["components"]["securitySchemes"] = {"key": KEY}
            described["security"] = [{"key": []}]
            for methods in described["paths"].values():
                for told in methods.values():
                    problems = told["responses"]["default"]
                    (shape,) = problems["content"].values()  # under the type of the route's other answers
                    problems["content"] = {MEDIA_TYPE: shape}
                    if told.get(PUBLIC):
                        told["security"] = []
            self.openapi_schema = described
        return self.openapi_schema


def call_name(route: APIRoute) -> str:
    """What a call is named in programs that are made from the description: as its function is here."""
    return route.name
