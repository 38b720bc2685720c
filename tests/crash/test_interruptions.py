"""A verb that is interrupted at any step has happened whole or not at all, and others go on.

Here each verb is interrupted at a few steps, and on each server a few verbs are, which differ from run to run.
`python -m recollect.testing.interruptions` interrupts each at all of them, on any store.
"""

from __future__ import annotations

import inspect
import random

import pytest

from recollect import Memory
from recollect.customizations import Customizations
from recollect.entities import EntityCache
from recollect.episodes import Episodes
from recollect.graph import Graph
from recollect.learnings import Learnings
from recollect.org import Org
from recollect.profile import Facts
from recollect.session import Session
from recollect.testing.interruptions import CANCELLED, INTERRUPTIONS, ON_A_SERVER, drill, drill_ends, drill_some
from recollect.testing.stages import Stage
from recollect.testing.stores import ON_SERVERS
from recollect.testing.verbs import VERBS
from recollect.user import User
from recollect.working import Working

HANDLES = (Memory, User, Session, Org, Facts, Learnings, Customizations, Episodes, Graph, EntityCache, Working)
ELSEWHERE = {"Memory.start", "Memory.close"}
"""Opening and closing, which `test_cancellation.py` cancels on files."""
WITHIN = {"apply", "run", "make", "foreseen", "remake"}
"""Steps of the flow that are not called through a handle."""
STEPS_MAX = 24
A_FEW = 4
"""Interruptions that are tried on each server, of another verb each."""
SERVERS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ON_SERVERS if kind != "valkey"]
"""Valkey is drilled as a Cluster."""


def test_every_verb_that_waits_is_in_the_table():
    verbs = {
        f"{handle.__name__}.{name}"
        for handle in HANDLES
        for name, verb in inspect.getmembers(handle, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in WITHIN
    }
    assert verbs - ELSEWHERE == {name.partition(" ")[0] for name in VERBS}


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
async def test_a_verb_interrupted_anywhere_is_whole_or_absent_and_others_go_on(tmp_path, seed, handle):
    chance, stage, problems, steps = random.Random(f"{seed} {handle.__name__}"), Stage("memory", tmp_path), [], 0
    for name in VERBS:
        if name.startswith(f"{handle.__name__}."):
            places = sorted({1, chance.randint(1, 6), chance.randint(1, STEPS_MAX)})
            done = await drill(name, stage, chance.choice(INTERRUPTIONS), places)
            steps, problems = steps + done.steps, problems + done.problems
    assert problems == []
    assert steps > 0


@pytest.mark.parametrize("kind", SERVERS)
async def test_on_a_server_nothing_is_half_done_or_left_held_or_open(tmp_path, seed, kind):
    chance, problems, steps = random.Random(f"{seed} {kind}"), [], 0
    async with Stage(kind, tmp_path) as stage:
        for how in chance.sample((*CANCELLED, "closed", *ON_A_SERVER), A_FEW):
            done = await drill_some(chance.choice(list(VERBS)), stage, how, 1, chance)
            steps, problems = steps + done.steps, problems + done.problems
        for how in ("cancelled again and again", chance.choice(ON_A_SERVER)):
            done = await drill_ends("Memory.start", stage, how, (2, chance.randint(3, STEPS_MAX)))
            steps, problems = steps + done.steps, problems + done.problems
    assert problems == []
    assert steps > 0
