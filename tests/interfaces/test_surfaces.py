"""Bad and odd inputs end the same way over REST, MCP and the command line as in Python."""

from __future__ import annotations

import pytest

from recollect.errors import Conflict
from recollect.testing.bad_inputs import CASES
from recollect.testing.matrix import on_store, said_in, wrong_in
from recollect.testing.odd_inputs import SCENES, TELLING, TEXTS
from recollect.testing.stores import fresh_url
from recollect.testing.surfaces import SURFACES

MANY = ("C3", "C9", "C14")
"""Scenes of hundreds of calls: where each call needs its own program or client, `make drills` plays them."""
FEW = [name for name in TELLING if not name.startswith(MANY)]
ODD = {
    "rest": [*TEXTS, *TELLING],
    "mcp": [*TEXTS, *FEW],
    "cli": ["A3 NUL", "A7 tags", "A11 controls", "D1 signs of query languages"],
}
LEAST = {"rest": 560, "mcp": 225, "cli": 350}
"""How many inputs each surface can express. Fewer would mean that the table is skipped."""


@pytest.mark.parametrize("way", ODD)
async def test_bad_and_odd_inputs_end_as_they_do_in_python(way):
    scenes = {name: SCENES[name] for name in ODD[way]}
    result = await on_store(lambda: fresh_url("sqlite"), scenes, SURFACES[way])
    assert wrong_in(result) == []
    assert said_in(result) >= LEAST[way]


@pytest.mark.parametrize("way", SURFACES)
async def test_over_every_surface_only_new_works_when_adding(way):
    with fresh_url("sqlite") as url:
        async with SURFACES[way](url) as memory:
            ann = memory.user("ann")
            first = await ann.add_memory("Ann keeps bees.", only_new=True)
            with pytest.raises(Conflict):
                await ann.add_memory("Ann keeps bees.", only_new=True)
            if way == "rest":
                with pytest.raises(Conflict):
                    await ann.add_memories(["Ann sells honey.", "Ann keeps bees."], only_new=True)
            truth = (memory if way == "python" else memory.truth).user("ann")
            (kept,) = (await truth.list_memories())[0]
    assert kept.id == first.id and kept.data.get("seen", 1) == 1 and getattr(memory, "sent", 2) >= 2


async def test_what_a_surface_cannot_express_is_not_counted_as_sent():
    bytes_in_json = [case for case in CASES if case.name == "bytes"]
    assert bytes_in_json
    result = await on_store(lambda: fresh_url("memory"), {}, SURFACES["rest"], bytes_in_json)
    assert said_in(result) == 0


async def test_a_surface_that_accepts_what_python_refuses_is_reported():
    """The table itself: a surface that ignores a bad input is noticed."""
    result = await on_store(lambda: fresh_url("memory"), {}, _deaf, CASES[:4])
    assert len(wrong_in(result)) >= 4


class _Deaf:
    """Accepts everything and does nothing."""

    whole = ""

    def __init__(self, truth):
        self.truth, self.sent = truth, 0

    def as_told(self, kind):
        return kind

    def user(self, *_, **__):
        return self

    session = user

    def __getattr__(self, verb):
        async def take(*_, **__):
            self.sent += 1
            return []

        return take


def _deaf(url):
    return _Reaching(SURFACES["python"](url))


class _Reaching:
    def __init__(self, memory):
        self._memory = memory

    async def __aenter__(self):
        return _Deaf(await self._memory.__aenter__())

    async def __aexit__(self, *ended):
        await self._memory.__aexit__(*ended)
