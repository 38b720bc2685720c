"""Unlearning for learnings and the entity graph: what is left without some of the messages that told it.

These records count who told them instead of keeping spells. One that nobody else told goes or, with
an undo, ends. An entity stays as long as something that is told about it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from recollect.layers import own_data
from recollect.policies import graphs, learnings
from recollect.policies.merging import normal
from recollect.policies.spells import Telling
from recollect.policies.unlearning import Gone, Undo, is_of, remembering, restored, scrubbed
from recollect.records import Record, Source, with_data, without_data

Left = dict[str, Record | None]
"""What becomes of each record that changes; None: it goes."""


# ── Records that count ───────────────────────────────────────────────────────────────────────────


def _field(record: Record) -> tuple[str, int]:
    """Where a record names the messages that told it, and how many it keeps."""
    if record.layer == "learning":
        return "sources", learnings.SOURCES_KEPT
    return "messages", graphs.MESSAGES_KEPT


def _tellings(record: Record, ids: Iterable[str]) -> list[Telling]:
    source, at = record.source or Source(), record.created_at
    return [
        Telling(id, source.session_id if id == source.message_id else None, at, at, 1.0, source.extractor, "")
        for id in ids
    ]


def _less(record: Record, gone: Gone) -> Record | None:
    """The record without these tellings; None when nobody else told it."""
    field, most = _field(record)
    told: Sequence[str] = record.data.get(field, ())
    lost = {each.message for each in _tellings(record, told) if gone(each)}
    if not lost:
        return record
    kept = [id for id in told if id not in lost]
    # Beyond what is kept it is unknown who told it, so that counts as forgotten, too.
    outright = record.data.get("seen", 1) - len(told) if len(told) < most else 0
    if not kept and outright <= 0:
        return None
    seen = max(record.data.get("seen", 1) - len(lost), 1)
    return _named(with_data(record, **{field: kept}, seen=seen), kept)


def _named(record: Record, messages: Sequence[str]) -> Record:
    """The record with one of these messages as its source, if the one it names is not among them."""
    source = record.source
    if source is None or source.message_id is None or source.message_id in messages:
        return record
    named = Source(messages[0], None, None, source.role, source.extractor) if messages else None
    return record.with_(source=named)


def _back(record: Record, undo_id: str) -> Record:
    """The record after an undo is taken back, with the messages that told it since."""
    if not is_of(record, undo_id):
        return record
    field, most = _field(record)
    before = restored(record)
    since = [id for id in record.data.get(field, ()) if id not in before.data.get(field, ())]
    if not since:
        return before
    told = [*before.data.get(field, ()), *since][-most:]
    return with_data(before, **{field: told}, seen=before.data.get("seen", 1) + len(since))


# ── Learnings ────────────────────────────────────────────────────────────────────────────────────


def learning_without(record: Record, gone: Gone, undo: Undo | None = None) -> Record | None:
    """A learning without these tellings; with an undo it is retired instead, for that reason."""
    if undo is None:
        return _less(scrubbed(record, lambda each: _less(each, gone)), gone)
    if _is_over(record):
        return record
    left = _less(record, gone)
    if left is record:
        return record
    ended = with_data(record, retired=undo.reason).with_(valid_to=undo.at) if left is None else left
    return remembering(record, ended, undo)


def learning_again(record: Record, undo_id: str) -> Record:
    """A learning after an undo is taken back."""
    return _back(record, undo_id)


# ── The entity graph ─────────────────────────────────────────────────────────────────────────────


def graph_without(records: Sequence[Record], gone: Gone, undo: Undo | None = None) -> Left:
    """What changes in a graph (entities, relations, and what these were before) without these tellings."""
    if not any(_mentions(record, gone) for record in records):
        return {}
    held = {record.id: record for record in records if graphs.is_whole(record)}
    if undo is None:
        held = {id: _scrubbed(record, gone) for id, record in held.items()}
    told = {id: record for id, record in held.items() if record.layer != "past"}
    over = {id for id, record in told.items() if undo is not None and _is_over(record)}
    left: Left = {id: record if id in over else _less(record, gone) for id, record in told.items()}
    _keep_what_is_rested_on(told, left, undo)
    _drop_other_names(told, left)
    if undo is None:
        _take_merges_apart(left)
        _drop_bare_user(left)
    _fall_back(held, left, gone, undo)
    _reopen(left, gone, undo)
    for id, record in held.items():
        if record.layer == "past" and id not in left:
            is_told = left.get(record.data["of"], record) is not None
            left[id] = record if is_told and undo is not None else _period(record, gone) if is_told else None
    original = {record.id: record for record in records}
    if undo is not None:
        left = {id: _undone(original[id], record, undo) for id, record in left.items()}
    return {id: record for id, record in left.items() if record != original[id]}


def _mentions(record: Record, gone: Gone) -> bool:
    """Whether a record names one of these tellings, itself or in what it remembers from before."""
    told = own_data(record)
    ids = [id for name in ("messages", "ended_by", "began_by") for id in told.get(name, ())]
    return any(map(gone, _tellings(record, ids))) or ("undone" in record.data and _mentions(restored(record), gone))


def graph_again(records: Iterable[Record], undo_id: str) -> dict[str, Record]:
    """What changes in a graph when an undo is taken back."""
    changed = {record.id: _back_in_time(record, undo_id) for record in records if is_of(record, undo_id)}
    return {id: graphs.worded(record) if record.layer == "entity" and not record.data.get("alias") else record
            for id, record in changed.items()}  # fmt: skip


def _back_in_time(record: Record, undo_id: str) -> Record:
    """The record restored; a relation that was told since then holds at both times."""
    back = _back(record, undo_id)
    if back.data.get("messages") == restored(record).data.get("messages") or graphs.is_void(record):
        return back
    ends = (back.valid_to, record.valid_to)
    start = min(graphs.began(back), graphs.began(record))
    return back.with_(
        valid_from=None if start == graphs.EARLIEST else start,
        valid_to=None if None in ends else max(map(int, filter(None, ends))),
    )


def _is_over(record: Record) -> bool:
    """Whether an undo has already ended it."""
    undone = record.data.get("undone")
    if undone is None:
        return False
    reasons = (record.data.get("reason"), record.data.get("retired"))
    return undone["reason"] in reasons or ("alias" in record.data and "merged_into" not in record.data)


def _scrubbed(record: Record, gone: Gone) -> Record:
    return scrubbed(record, lambda each: _less(each, gone)) if record.layer != "past" else record


def _alive(left: Left, layer: str) -> list[Record]:
    return [record for record in left.values() if record is not None and record.layer == layer]


def _keep_what_is_rested_on(told: Mapping[str, Record], left: Left, undo: Undo | None) -> None:
    """Keep an entity, on the word of the messages that told something about it, while any of that stays.

    With an undo, also while another stays that was merged into it; to forget, such merges are taken apart instead.
    """
    resting: dict[str, list[str]] = {}
    for record in (*_alive(left, "relation"), *(_alive(left, "entity") if undo is not None else ())):
        if not record.data.get("alias") and not _is_over(record):
            for id in graphs.rests_on(record):
                resting.setdefault(id, []).extend(record.data.get("messages", ()))
    for id, messages in resting.items():
        if id in told and left[id] is None:
            kept = list(dict.fromkeys(messages))[-graphs.MESSAGES_KEPT :]
            left[id] = _named(with_data(told[id], messages=kept, seen=max(len(kept), 1)), kept)


def _take_merges_apart(left: Left) -> None:
    """Restore entities that were merged into one that goes: a merge is no telling, and its name must not stay."""
    for other in _alive(left, "entity"):
        into = other.data.get("merged_into")
        if not other.data.get("alias") and into in left and left[into] is None:
            left[other.id] = graphs.unmerged(other)


def _drop_other_names(told: Mapping[str, Record], left: Left) -> None:
    """Other names go with their entity, and an entity loses the names that went."""
    pointers = [record for record in told.values() if record.data.get("alias") and "merged_into" in record.data]
    for pointer in pointers:
        entity = left.get(pointer.data["merged_into"])
        if entity is None:
            left[pointer.id] = None
        elif left[pointer.id] is None:
            left[entity.id] = without_names(entity, pointer.data["names"])


def without_names(entity: Record, names: Iterable[str]) -> Record:
    """The entity without these names, as long as it has others."""
    gone = {normal(name) for name in names}
    kept = [name for name in entity.data["names"] if normal(name) not in gone]
    return graphs.worded(with_data(entity, names=kept)) if kept else entity


def _drop_bare_user(left: Left) -> None:
    """When something went, also drop a user about whom nothing else is known."""
    rested = {id for record in _alive(left, "relation") for id in graphs.rests_on(record)}
    if any(record is None for record in left.values()):
        left |= {each.id: None for each in _alive(left, "entity") if _is_bare_user(each) and each.id not in rested}


def _is_bare_user(entity: Record) -> bool:
    """True for a user about whom nothing is known except that they exist."""
    data = entity.data
    nothing_else = not (entity.metadata or data.get("absorbed") or data.get("messages"))
    return nothing_else and [normal(name) for name in data["names"]] == [graphs.USER]


def _reopen(left: Left, gone: Gone, undo: Undo | None) -> None:
    """Reopen relations that ended only because of these tellings."""
    for record in _alive(left, "relation"):
        by = record.data.get("ended_by", [])
        kept = [str(each.message) for each in _tellings(record, by) if not gone(each)]
        if kept == by or (undo is not None and _is_over(record)):
            continue
        if kept or _is_over(record):
            left[record.id] = with_data(record, ended_by=kept)
        else:
            left[record.id] = _until_the_next(graphs.reopened(record), _alive(left, "relation"))


def _fall_back(held: Mapping[str, Record], left: Left, gone: Gone, undo: Undo | None) -> None:
    """Revert a relation whose latest period only these tellings began to what it was; an undo keeps the period."""
    for record in _alive(left, "relation"):
        begun = _tellings(record, record.data.get("began_by", ()))
        if not begun or not all(map(gone, begun)) or _is_over(record):
            continue
        periods = [each for each in held.values() if each.layer == "past" and each.data["of"] == record.id]
        left[record.id] = without_data(record, "began_by")
        if periods:
            last = max(periods, key=graphs.began)
            kept = {name: record.data[name] for name in ("messages", "seen", "edits") if name in record.data}
            data = {**last.data["data"], **kept}
            left[record.id] = record.with_(data=data, valid_from=last.valid_from, valid_to=last.valid_to)
            if undo is None:
                left[last.id] = None


def _until_the_next(relation: Record, others: Iterable[Record]) -> Record:
    """The relation, ended where the next of its kind begins if only one can hold."""
    told = relation.data
    if told["relation"] not in graphs.SINGLE_VALUED:
        return relation
    same = [o for o in others if (o.data["subject"], o.data["relation"]) == (told["subject"], told["relation"])]
    later = [o for o in same if graphs.began(o) > graphs.began(relation) and not graphs.is_void(o)]
    follows = min(later, key=graphs.began, default=None)
    if follows is None or (relation.valid_to is not None and relation.valid_to <= graphs.began(follows)):
        return relation
    return graphs.ended(relation, graphs.began(follows), graphs.ANOTHER_BEGAN, follows.data.get("messages", ()))


def _period(period: Record, gone: Gone) -> Record:
    """An earlier period of a relation, which forgets the messages that the relation forgets."""
    inner = period.with_(data=period.data["data"], layer="relation")
    told = _less(inner, gone) or _named(with_data(inner, messages=[]), [])
    for name in ("ended_by", "began_by"):
        if name in told.data:
            kept = [each.message for each in _tellings(inner, told.data[name]) if not gone(each)]
            told = with_data(told, **{name: kept})
    if told == inner:
        return period
    return with_data(period, data=dict(told.data)).with_(source=told.source)


def _undone(before: Record, after: Record | None, undo: Undo) -> Record:
    """What an undo makes of a record: ended where it would otherwise go, and remembering what it was."""
    if after == before:
        return before
    if after is None and before.data.get("alias"):
        after = without_data(before, "merged_into", "before_merge")
    elif after is None and before.layer == "entity":
        after = with_data(before, reason=undo.reason).with_(valid_to=undo.at)
    elif after is None:
        start = before.valid_from if before.valid_from is not None else before.valid_to or before.created_at
        after = with_data(before, reason=undo.reason).with_(valid_from=start, valid_to=start)
    return remembering(before, after, undo)
