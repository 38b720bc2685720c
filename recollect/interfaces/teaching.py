"""Commands for what assistants are taught: `learnings`, which they gather, and `customize`, which people set."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from recollect.customizations import Customization, Customizations
from recollect.interfaces.importing import take_in
from recollect.interfaces.knowing import percent, show_found
from recollect.interfaces.options import OrgWide, look, run
from recollect.interfaces.output import emit, one_line, say
from recollect.interfaces.whose import Whose
from recollect.learnings import Learning, Learnings
from recollect.memory import Memory
from recollect.settings import Settings

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
    whose: Whose,
    text: Annotated[str, typer.Argument(help="What was learned.")],
    type: Annotated[str, typer.Option(help="`preference`, `pattern` or `correction`.")] = "pattern",
    confidence: Annotated[float | None, typer.Option(help="0 to 1; else the default of the type.")] = None,
    org_wide: OrgWide = False,
) -> None:
    """Add a learning; adding the same again raises its confidence.

    Example: recollect learnings add "asks for a summary before details"
    """

    async def tell(memory: Memory) -> Learning:
        kept = await _learnings(memory, whose, org_wide).add(text, type=type, confidence=confidence)
        if Settings.read(os.environ).worker:
            await take_in(memory)
        return kept

    _show_learning("Kept", run(whose.url, tell), whose.as_json)


def learnings_confirm(whose: Whose, id: LearningId, org_wide: OrgWide = False) -> None:
    """Say that a learning turned out right: its confidence rises.

    Example: recollect learnings confirm 019a7c1f5e21a3b1
    """
    done = look(whose.url, lambda memory: _learnings(memory, whose, org_wide).confirm(id))
    _show_learning("Confirmed", done, whose.as_json)


def learnings_contradict(whose: Whose, id: LearningId, org_wide: OrgWide = False) -> None:
    """Say that a learning turned out wrong: its confidence falls, and below a floor it is retired.

    Example: recollect learnings contradict 019a7c1f5e21a3b1
    """
    done = look(whose.url, lambda memory: _learnings(memory, whose, org_wide).contradict(id))
    _show_learning("Retired" if done.retired else "Less sure", done, whose.as_json)


def learnings_restore(whose: Whose, id: LearningId, org_wide: OrgWide = False) -> None:
    """Bring back a learning that was retired.

    Example: recollect learnings restore 019a7c1f5e21a3b1
    """
    done = look(whose.url, lambda memory: _learnings(memory, whose, org_wide).restore(id))
    _show_learning("Restored", done, whose.as_json)


def _learnings(memory: Memory, whose: Whose, org_wide: bool) -> Learnings:
    return whose.owner(memory, org_wide).learnings


def _show_learning(done: str, learning: Learning, as_json: bool) -> None:
    if as_json:
        emit(learning.to_dict())
    else:
        say(f"{done}, {percent(learning.confidence)} sure: {one_line(learning.content, 200)}\n  id {learning.id}")


# ── Customizations ───────────────────────────────────────────────────────────────────────────────


def customize_list(whose: Whose, agent: Agent = "", org_wide: OrgWide = False) -> None:
    """List standing instructions in the order an assistant is given them, including those that are off.

    Example: recollect customize list --agent support
    """
    found = look(whose.url, lambda memory: _instructions(_customizations(memory, whose, agent, org_wide)))
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
    whose: Whose,
    text: Annotated[str, typer.Argument(help="What the assistant should always do.")],
    id: Annotated[
        str | None, typer.Option(help="An id of your choice; the id of a default replaces that default.")
    ] = None,
    agent: Agent = "",
    org_wide: OrgWide = False,
) -> None:
    """Give a standing instruction, to all assistants or to one; it goes into every prompt.

    Example: recollect customize add "Answer in two sentences." --agent support
    """
    added = run(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).add(text, id=id))
    _show_instruction("Added", added, whose.as_json)


def customize_change(
    whose: Whose,
    id: InstructionId,
    text: Annotated[str, typer.Argument(help="The new text.")],
    agent: Agent = "",
    org_wide: OrgWide = False,
) -> None:
    """Change what an instruction says; a default is changed for this user alone.

    Example: recollect customize change tone "Be brief, and kind."
    """
    changed = look(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).update(id, text=text))
    _show_instruction("Changed", changed, whose.as_json)


def customize_on(whose: Whose, id: InstructionId, agent: Agent = "", org_wide: OrgWide = False) -> None:
    """Switch an instruction on again.

    Example: recollect customize on tone
    """
    switched = look(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).switch_on(id))
    _show_instruction("On", switched, whose.as_json)


def customize_off(whose: Whose, id: InstructionId, agent: Agent = "", org_wide: OrgWide = False) -> None:
    """Switch an instruction off but keep it; a default is switched off for this user alone.

    Example: recollect customize off tone
    """
    switched = look(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).switch_off(id))
    _show_instruction("Off", switched, whose.as_json)


def customize_order(
    whose: Whose,
    ids: Annotated[list[str], typer.Argument(help="All ids, in the new order.")],
    agent: Agent = "",
    org_wide: OrgWide = False,
) -> None:
    """Reorder instructions; name each of your own once.

    Example: recollect customize order tone units
    """
    ordered = look(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).reorder(ids))
    rows = [(each.id, one_line(each.text, 300)) for each in ordered]
    show_found(ordered, whose.as_json, ["id", "instruction"], rows, "")


def customize_delete(whose: Whose, id: InstructionId, agent: Agent = "", org_wide: OrgWide = False) -> None:
    """Remove an instruction of your own; a default that it replaced applies again.

    Example: recollect customize delete tone
    """
    look(whose.url, lambda memory: _customizations(memory, whose, agent, org_wide).delete(id))
    emit({"deleted": id}) if whose.as_json else say("Deleted.")


def _customizations(memory: Memory, whose: Whose, agent: str, org_wide: bool) -> Customizations:
    return whose.owner(memory, org_wide).customizations.of_agent(agent)


def _show_instruction(done: str, each: Customization, as_json: bool) -> None:
    if as_json:
        emit(each.to_dict())
    else:
        say(f"{done}: {one_line(each.text, 200)}\n  id {each.id}")


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
