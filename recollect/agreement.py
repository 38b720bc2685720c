"""The graph agrees with the profile: when a fact is over, or never was so, so is the relation that says the same.

People correct facts, and messages end them ("I got divorced") without a word of who it was. A relation
of the user that stands for such a fact is then ended by a job that is written with the change.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.index import Indexes
from recollect.ledger import Ledger
from recollect.policies import graphs
from recollect.policies.facts import Telling, end_of, start_of
from recollect.policies.merging import normal
from recollect.profile import spells_of
from recollect.records import Partition, Record, Scope

OVER = "the profile says so"
"""Why a relation ended that only follows a fact."""


class Agreement:
    """Lets relations of a user follow the facts that they stand for."""

    def __init__(self, ledger: Ledger, indexes: Indexes, partition: Partition) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = partition

    async def follow(self, key: str) -> None:
        """End relations whose fact is over; let those hold again that ended with a fact that holds again."""
        scope, now = Scope(*self._partition), self._ledger.clock()
        index = await self._indexes.current(self._partition)
        user = graphs.name_id(scope, graphs.USER)
        mine = [
            record
            for record in index.held("relation", now)
            if graphs.is_whole(record)
            and (record.data["subject"], graphs.SAID_BY_FACTS.get(record.data["relation"])) == (user, key)
            and (graphs.holds(record, now) or record.data.get("reason") == OVER)
        ]
        standing = {normal(str(head.data["value"])) for head in index.of_layer("fact", now) if head.data["key"] == key}
        if all(graphs.holds(each, now) and normal(each.data["names"][1]) in standing for each in mine):
            return  # as most often: what a message told is in the graph already
        spells = await spells_of(self._ledger, scope, key)
        await self._ledger.change_each(
            self._partition, [record.id for record in mine], lambda relation: _agreeing(relation, spells, now)
        )


def _agreeing(relation: Record, spells: Iterable[Record], now: int) -> Record:
    """A relation as the spells of its fact have it; as it is if they say nothing of it."""
    object = normal(relation.data["names"][1])
    same = [spell for spell in spells if normal(spell.data["value"]) == object and spell.data["last_seen"] is not None]
    if not same:
        return relation
    last = max(same, key=lambda spell: (end_of(spell) > start_of(spell), end_of(spell), start_of(spell)))
    if last.valid_to is None or last.valid_to > now:
        return graphs.held_again(relation) if relation.data.get("reason") == OVER else relation
    if not graphs.holds(relation, now):
        return relation
    return graphs.ended(relation, max(last.valid_to, graphs.began(relation)), OVER, _ended_by(last))


def _ended_by(spell: Record) -> list[str]:
    """The messages that said that it is over, if any did."""
    last = spell.data.get("ended", [[]])[-1]
    told = [Telling(*each) for each in last[2:]]
    return [telling.message for telling in told if telling.message]
