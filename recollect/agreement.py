"""Keep the graph consistent with the profile: a relation ends, or is forgotten, with the fact it stands for.

People correct facts, and messages end them ("I got divorced") without naming the other person. A relation
of the user that stands for such a fact is then ended by a job that is committed with the change. When a fact
is forgotten, what was learned as a relation goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from recollect.ledger import Ledger
from recollect.policies import graphs
from recollect.policies.keys import key_of
from recollect.policies.merging import normal
from recollect.policies.spells import Telling, end_of, start_of
from recollect.profile import spells_of
from recollect.records import Partition, Record, Scope
from recollect.spells import is_old_value

if TYPE_CHECKING:
    from recollect.index import PartitionIndex
    from recollect.indexes import Indexes

LEARNED_ENDS = (graphs.AS_THE_PROFILE, graphs.ANOTHER_BEGAN, graphs.NO_LONGER)
"""Reasons for which a relation ended that may hold again with its fact: nobody ended it by hand."""


ALSO_SAID = graphs.SAID_BY_FACTS | {"comes_from": "hometown"}
"""Relations that are facts under another name; others have that of their key, or an alias of it."""


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
            and (record.data["subject"], _key_of(record)) == (user, key)
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


def said_by(index: PartitionIndex, gone: Iterable[Record], now: int) -> list[Record]:
    """The relations of the user that were learned along with these facts, or with these old values of facts."""
    values: dict[str, set[str]] = {}
    whole: set[str] = set()
    for record in gone:
        if record.layer == "fact" and not key_of(record.data["key"]).many:
            whole.add(record.data["key"])  # it goes with all the values it had
        elif record.layer == "fact" or is_old_value(record):
            told = record.data if record.layer == "fact" else record.data["data"]
            values.setdefault(told["key"], set()).add(normal(str(told["value"])))
    if not whole and not values:
        return []
    return [
        record
        for record in index.held("relation", now)
        if graphs.is_whole(record)
        and record.data["subject"] == graphs.name_id(record.scope, graphs.USER)
        and ((key := _key_of(record)) in whole or normal(record.data["names"][1]) in values.get(key, ()))
        and _is_learned(record)
    ]


def _key_of(relation: Record) -> str:
    """The key under which a relation of the user is a fact as well."""
    name = relation.data["relation"]
    return ALSO_SAID.get(name) or key_of(name).name


def _is_learned(relation: Record) -> bool:
    return relation.source is not None and relation.source.extractor is not None


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
    return relation.data.get("reason", graphs.NO_LONGER if _is_learned(relation) else "") not in LEARNED_ENDS


def _ended_by(spell: Record) -> list[str]:
    """The messages that said it is over, if any did."""
    last = spell.data.get("ended", [[]])[-1]
    told = [Telling(*each) for each in last[2:]]
    return [telling.message for telling in told if telling.message]
