"""Keep the graph consistent with the profile: a relation ends when the fact it stands for ends or proves untrue.

People correct facts, and messages end them ("I got divorced") without naming the other person. A relation
of the user that stands for such a fact is then ended by a job that is committed with the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from recollect.ledger import Ledger
from recollect.policies import graphs
from recollect.policies.facts import Telling, end_of, start_of
from recollect.policies.merging import normal
from recollect.profile import spells_of
from recollect.records import Partition, Record, Scope

if TYPE_CHECKING:
    from recollect.indexes import Indexes

LEARNED_ENDS = (graphs.AS_THE_PROFILE, graphs.ANOTHER_BEGAN, graphs.NO_LONGER)
"""Reasons for which a relation ended that may hold again with its fact: nobody ended it by hand."""


class Agreement:
    """Makes a user's relations follow the facts they stand for."""

    def __init__(self, ledger: Ledger, indexes: Indexes, partition: Partition) -> None:
        self._ledger = ledger
        self._indexes = indexes
        self._partition = partition

    async def follow(self, key: str) -> None:
        """End relations whose fact is over; restore those that ended with a fact that holds again."""
        scope, now = Scope(*self._partition), self._ledger.clock()
        index = await self._indexes.current(self._partition)
        user = graphs.name_id(scope, graphs.USER)
        mine = [
            record
            for record in index.held("relation", now)
            if graphs.is_whole(record)
            and (record.data["subject"], graphs.SAID_BY_FACTS.get(record.data["relation"])) == (user, key)
            and (graphs.holds(record, now) or record.data.get("reason") in LEARNED_ENDS)
        ]
        standing = {normal(str(head.data["value"])) for head in index.of_layer("fact", now) if head.data["key"] == key}
        if all(graphs.holds(each, now) and normal(each.data["names"][1]) in standing for each in mine):
            return  # the usual case: what a message said is in the graph already
        spells: dict[str, list[Record]] = {}
        for spell in await spells_of(self._ledger, scope, key):
            spells.setdefault(normal(spell.data["value"]), []).append(spell)
        await self._ledger.change_each(
            self._partition, [record.id for record in mine], lambda relation: _agreeing(relation, spells, now)
        )


def _agreeing(relation: Record, spells: Mapping[str, Sequence[Record]], now: int) -> Record:
    """A relation brought into line with the spells of its fact, keyed by value; unchanged if they do not mention it."""
    told = spells.get(normal(relation.data["names"][1]), ())
    same = [spell for spell in told if spell.data["last_seen"] is not None]
    if not same:
        return relation
    last = max(same, key=lambda spell: (end_of(spell) > start_of(spell), end_of(spell), start_of(spell)))
    if last.valid_to is None or last.valid_to > now:
        return relation if graphs.holds(relation, now) or _is_by_hand(relation) else graphs.held_again(relation)
    if not graphs.holds(relation, now):
        return relation
    end = max(last.valid_to, graphs.began(relation))
    return graphs.ended(relation, end, graphs.AS_THE_PROFILE, _ended_by(last))


def _is_by_hand(relation: Record) -> bool:
    """Whether somebody ended it, or stated it with its end, for a reason that machines do not give."""
    is_learned = relation.source is not None and relation.source.extractor is not None
    return relation.data.get("reason", graphs.NO_LONGER if is_learned else "") not in LEARNED_ENDS


def _ended_by(spell: Record) -> list[str]:
    """The messages that said it is over, if any did."""
    last = spell.data.get("ended", [[]])[-1]
    told = [Telling(*each) for each in last[2:]]
    return [telling.message for telling in told if telling.message]
