"""Routes for what is not to be trusted: undo what was learned from a source, and set sessions or memories aside."""

from __future__ import annotations

from starlette.responses import Response

from recollect.server import bodies, schemas
from recollect.server.answers import Json
from recollect.server.routing import Owner, given, router, shapes

routes = router("/api/users/{user}", "trust")


@routes.post("/undo", responses=shapes(schemas.Undone))
async def undo(owner: Owner, body: bodies.UndoRequest) -> Response:
    """Undo what was learned from a session or message, by an extractor or since a time; with `dry_run`, only count it.

    Earlier values hold again, and it is not learned again from the same messages. The `id` is for taking it back.
    """
    return Json((await owner.undo(**given(body))).to_dict())


@routes.post("/redo", responses=shapes(schemas.Undone))
async def redo(owner: Owner, body: bodies.RedoRequest) -> Response:
    """Take an undo back; what was learned since stays."""
    return Json((await owner.redo(body.undone_id)).to_dict())


@routes.post("/quarantine", responses=shapes(schemas.SetAside))
async def quarantine(owner: Owner, body: bodies.QuarantineRequest) -> Response:
    """Set a session or some memories aside: nothing uses them any more, and what they taught is undone."""
    return Json((await owner.quarantine(**given(body))).to_dict())


@routes.post("/release", responses=shapes(schemas.SetAside))
async def release(owner: Owner, body: bodies.ReleaseRequest) -> Response:
    """Trust a session or some memories again that were set aside."""
    return Json((await owner.release(**given(body))).to_dict())
