"""What assistants are taught: learnings, which they gather, and standing instructions, which people give."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from recollect.customizations import Customization, Customizations
from recollect.errors import NotFound
from recollect.learnings import Learning
from recollect.server.console.door import Filled, router
from recollect.server.console.forms import Form
from recollect.server.console.pages import moved, page
from recollect.server.customizations import InstructionId
from recollect.server.profile import Judgement, LearningId, judge
from recollect.server.routing import Here, Owner
from recollect.validate import LEARNING_TYPES

routes = router()

DONE = {
    "confirm": "Confirmed. Its confidence went up.",
    "contradict": "Contradicted. Its confidence went down; a learning that falls too low is retired.",
    "restore": "Restored.",
}


CHANGED = {
    "edit": "Saved. It applies from the next turn on.",
    "on": "Switched on. It applies from the next turn on.",
    "off": "Switched off. It is kept, but no longer applies.",
    "up": "Moved up.",
    "down": "Moved down.",
    "delete": "Deleted.",
}


@dataclass(frozen=True, slots=True)
class Teaching:
    """The page: learnings, and the instructions for one agent or for all."""

    learnings: tuple[Learning, ...]
    types: tuple[str, ...]
    agent: str
    agents: tuple[str, ...]
    instructions: tuple[Customization, ...]
    defaults: tuple[Customization, ...]


@routes.get("/users/{user}/learnings")
async def teaching(request: Request, service: Here, owner: Owner, agent: str = "") -> Response:
    """What was learned, and what was instructed."""
    held = owner.customizations.of_agent(agent)
    own = await held.list()
    taken = {each.id for each in own}
    view = Teaching(
        learnings=tuple(await owner.learnings.list(include_retired=True)),
        types=LEARNING_TYPES,
        agent=agent,
        agents=tuple(sorted(service.agents)),
        instructions=tuple(own),
        defaults=tuple(each for each in await held.effective() if each.id not in taken),
    )
    return page(request, "teaching", view)


# ── Learnings ────────────────────────────────────────────────────────────────────────────────────


@routes.post("/users/{user}/learnings")
async def add_learning(request: Request, owner: Owner, form: Filled) -> Response:
    """Store a learning."""
    await owner.add_learning(form.get("content").strip(), type=form.get("type"))
    return moved(request, "users", owner.id, "learnings", notice="Learned.")


@routes.post("/users/{user}/learnings/{id}/{judgement}")
async def judge_learning(request: Request, owner: Owner, id: LearningId, judgement: Judgement) -> Response:
    """Confirm or contradict a learning, or restore one that was retired."""
    await judge(owner.learnings, id, judgement)
    return moved(request, "users", owner.id, "learnings", notice=DONE[judgement])


# ── Instructions ─────────────────────────────────────────────────────────────────────────────────


@routes.post("/users/{user}/instructions")
async def add_instruction(request: Request, owner: Owner, form: Filled) -> Response:
    """Add a standing instruction after the others."""
    await owner.customize(form.get("text").strip(), agent=form.get("agent"))
    return _back(request, owner.id, form, "Added. It applies from the next turn on.")


@routes.post("/users/{user}/instructions/{id}/{step}")
async def change_instruction(request: Request, owner: Owner, id: InstructionId, step: str, form: Filled) -> Response:
    """Edit an instruction, switch it on or off, move it up or down, or remove it."""
    held = owner.customizations.of_agent(form.get("agent"))
    if step not in CHANGED:
        raise NotFound(field="step")
    if step == "edit":
        await held.update(id, text=form.get("text").strip())
    elif step in ("on", "off"):
        await held.update(id, on=step == "on")
    elif step in ("up", "down"):
        await _move(held, id, -1 if step == "up" else 1)
    else:
        await held.delete(id)
    return _back(request, owner.id, form, CHANGED[step])


async def _move(held: Customizations, id: str, by: int) -> None:
    """Move an instruction one place up or down; at either end it stays."""
    order = [each.id for each in await held.list()]
    if id not in order:
        raise NotFound(field="id")
    place = order.index(id)
    other = min(max(place + by, 0), len(order) - 1)
    order[place], order[other] = order[other], order[place]
    await held.reorder(order)


def _back(request: Request, user: str, form: Form, notice: str) -> Response:
    return moved(request, "users", user, "learnings", agent=form.get("agent"), notice=notice)
