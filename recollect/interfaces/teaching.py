"""Commands for what assistants are taught: `learnings`, which they gather, and `customize`, which people set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from recollect.customizations import Customization, Customizations
from recollect.interfaces.knowing import percent, show_found
from recollect.interfaces.output import give, one_line
from recollect.interfaces.whose import Whose, WhoseOrShared
from recollect.learnings import Learning

LearningId = Annotated[str, typer.Argument(help="Id of a learning; `learnings` shows it.")]
InstructionId = Annotated[str, typer.Argument(help="Id of an instruction; `customize` shows it.")]
Agent = Annotated[str, typer.Option(help="Only for this assistant; else for all.")]
NO_INSTRUCTIONS = 'There are no standing instructions. `recollect customize add "Be brief."` adds one.'


# ── Learnings ────────────────────────────────────────────────────────────────────────────────────


def learnings_list(
    whose: Whose,
    type: Annotated[str | None, typer.Option(help="Only `preference`, `pattern` or `correction`.")] = None,
    retired: Annotated[bool, typer.Option("--retired", help="Include those that no longer count.")] = False,
) -> None:
    """List what was learned from working with a user, and what applies to everybody in the organisation.

    Example: recollect learnings list --type correction
    """
    found = whose.look(lambda who: who.learnings.list(type=type, include_retired=retired))
    rows = [(each.id, each.type, percent(each.confidence), each.usage_count, _with_note(each)) for each in found]
    nothing = f"No learnings for {whose.in_words} `recollect facts` lists what is known."
    show_found(found, whose.as_json, ["id", "type", "sure", "used", "learning"], rows, nothing)


def _with_note(learning: Learning) -> str:
    notes = ["for everybody"] * learning.org_wide + ["retired"] * (learning.retired is not None)
    return one_line(learning.content, 300) + (f" ({', '.join(notes)})" if notes else "")


def learnings_add(
    whose: WhoseOrShared,
    text: Annotated[str, typer.Argument(help="What was learned.")],
    type: Annotated[str, typer.Option(help="`preference`, `pattern` or `correction`.")] = "pattern",
    confidence: Annotated[float | None, typer.Option(help="0 to 1; else the default of the type.")] = None,
) -> None:
    """Add a learning; adding the same again raises its confidence.

    Example: recollect learnings add "asks for a summary before details"
    """
    kept = whose.tell(lambda who: who.learnings.add(text, type=type, confidence=confidence))
    _show_learning("Kept", kept, whose.as_json)


def learnings_confirm(whose: WhoseOrShared, id: LearningId) -> None:
    """Say that a learning turned out right: its confidence rises.

    Example: recollect learnings confirm 019a7c1f5e21a3b1
    """
    done = whose.look(lambda who: who.learnings.confirm(id))
    _show_learning("Confirmed", done, whose.as_json)


def learnings_contradict(whose: WhoseOrShared, id: LearningId) -> None:
    """Say that a learning turned out wrong: its confidence falls, and below a floor it is retired.

    Example: recollect learnings contradict 019a7c1f5e21a3b1
    """
    done = whose.look(lambda who: who.learnings.contradict(id))
    _show_learning("Retired" if done.retired else "Less sure", done, whose.as_json)


def learnings_restore(whose: WhoseOrShared, id: LearningId) -> None:
    """Bring back a learning that was retired.

    Example: recollect learnings restore 019a7c1f5e21a3b1
    """
    done = whose.look(lambda who: who.learnings.restore(id))
    _show_learning("Restored", done, whose.as_json)


def _show_learning(done: str, learning: Learning, as_json: bool) -> None:
    said = f"{done}, {percent(learning.confidence)} sure: {one_line(learning.content, 200)}"
    give(as_json, learning.to_dict(), f"{said}\n  id {learning.id}")


# ── Customizations ───────────────────────────────────────────────────────────────────────────────


def customize_list(whose: WhoseOrShared, agent: Agent = "") -> None:
    """List standing instructions in the order an assistant is given them, including those that are off.

    Example: recollect customize list --agent support
    """
    found = whose.look(lambda who: _instructions(who.customizations.of_agent(agent)))
    rows = [(each.id, "on" if each.on else "off", _whose(each), one_line(each.text, 300)) for each in found]
    show_found(found, whose.as_json, ["id", "", "from", "instruction"], rows, NO_INSTRUCTIONS)


async def _instructions(held: Customizations) -> list[Customization]:
    """The defaults that apply, then all of the owner's own."""
    own = await held.list()
    taken = {each.id for each in own}
    return [each for each in await held.effective() if each.id not in taken] + own


def _whose(each: Customization) -> str:
    whose = "everybody" if each.org_wide else "the user"
    return f"{whose}, for {each.agent}" if each.agent else whose


def customize_add(
    whose: WhoseOrShared,
    text: Annotated[str, typer.Argument(help="What the assistant should always do.")],
    id: Annotated[
        str | None, typer.Option(help="An id of your choice; the id of a default replaces that default.")
    ] = None,
    agent: Agent = "",
) -> None:
    """Give a standing instruction, to all assistants or to one; it goes into every prompt.

    Example: recollect customize add "Answer in two sentences." --agent support
    """
    added = whose.run(lambda who: who.customizations.of_agent(agent).add(text, id=id))
    _show_instruction("Added", added, whose.as_json)


def customize_change(
    whose: WhoseOrShared,
    id: InstructionId,
    text: Annotated[str, typer.Argument(help="The new text.")],
    agent: Agent = "",
) -> None:
    """Change what an instruction says; a default is changed for this user alone.

    Example: recollect customize change tone "Be brief, and kind."
    """
    changed = whose.look(lambda who: who.customizations.of_agent(agent).update(id, text=text))
    _show_instruction("Changed", changed, whose.as_json)


def customize_on(whose: WhoseOrShared, id: InstructionId, agent: Agent = "") -> None:
    """Switch an instruction on again.

    Example: recollect customize on tone
    """
    switched = whose.look(lambda who: who.customizations.of_agent(agent).switch_on(id))
    _show_instruction("On", switched, whose.as_json)


def customize_off(whose: WhoseOrShared, id: InstructionId, agent: Agent = "") -> None:
    """Switch an instruction off but keep it; a default is switched off for this user alone.

    Example: recollect customize off tone
    """
    switched = whose.look(lambda who: who.customizations.of_agent(agent).switch_off(id))
    _show_instruction("Off", switched, whose.as_json)


def customize_order(
    whose: WhoseOrShared,
    ids: Annotated[list[str], typer.Argument(help="All ids, in the new order.")],
    agent: Agent = "",
) -> None:
    """Reorder instructions; name each of your own once.

    Example: recollect customize order tone units
    """
    ordered = whose.look(lambda who: who.customizations.of_agent(agent).reorder(ids))
    rows = [(each.id, one_line(each.text, 300)) for each in ordered]
    show_found(ordered, whose.as_json, ["id", "instruction"], rows, "")


def customize_delete(whose: WhoseOrShared, id: InstructionId, agent: Agent = "") -> None:
    """Remove an instruction of your own; a default that it replaced applies again.

    Example: recollect customize delete tone
    """
    whose.look(lambda who: who.customizations.of_agent(agent).delete(id))
    give(whose.as_json, {"deleted": id}, "Deleted.")


def _show_instruction(done: str, each: Customization, as_json: bool) -> None:
    give(as_json, each.to_dict(), f"{done}: {one_line(each.text, 200)}\n  id {each.id}")


# ── By name ──────────────────────────────────────────────────────────────────────────────────────

LEARNINGS: dict[str, Callable[..., None]] = {
    "list": learnings_list,
    "add": learnings_add,
    "confirm": learnings_confirm,
    "contradict": learnings_contradict,
    "restore": learnings_restore,
}
CUSTOMIZE: dict[str, Callable[..., None]] = {
    "list": customize_list,
    "add": customize_add,
    "change": customize_change,
    "on": customize_on,
    "off": customize_off,
    "order": customize_order,
    "delete": customize_delete,
}
