"""What the documents of a Cosmos DB container hold, and the writes that make up a commit.

    head       the counters of a partition; every commit replaces it, so its ETag guards all the others
    r:<id>     a record; once dropped, its tombstone
    j:<id>     a job
    k:<hash>   a remembered idempotency key

An erased partition keeps its head and its keys in another logical partition, under its veil. When it comes back, its
new head says so (`veil`), and earlier keys are still looked up under the veil.

Kinds of documents are told apart by their fields: only records have `born` and `layer`, only records and tombstones
`revision`, only jobs `due_at`, only keys `at`, only heads `listed`. So each query walks an index of what it looks for.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from recollect.errors import Corrupt
from recollect.records import Job, Partition, Record, Stored, Vector, digest_of, records_from
from recollect.stores.contract import (
    KEY_LIFE_MS,
    Head,
    Known,
    Meta,
    Plan,
    Prepared,
    Sealed,
    Written,
    is_veil,
    name_of,
    packed,
    touched_ids,
    unpacked,
    veil_of,
)
from recollect.stores.cosmos_link import Document, Operation

NAME_MAX = 900
"""The most characters in an id or a partition's name; the service takes 1,023 and 2,048 bytes."""
META_FIELDS = (
    "id", "_etag", "epoch", "revision", "version", "digest", "born", "dropped", "dead_at", "attempt", "result", "at",
)  # fmt: skip
"""What a commit must know about a document it touches."""


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def partition_name(partition: Partition) -> str:
    """The partition key of a partition: readable, and different for every partition."""
    return _short(name_of(partition))


def record_name(id: str) -> str:
    return _short(f"r:{_plain(id)}")


def job_name(id: str) -> str:
    return _short(f"j:{_plain(id)}")


def key_name(key_hash: bytes) -> str:
    return f"k:{key_hash.hex()}"


def _plain(id: str) -> str:
    """An id without `/ \\ ? #`, which the service refuses, and without `%`, which intermediaries decode."""
    return quote(id, safe="").replace("%", "=")


def _short(name: str) -> str:
    if len(name) <= NAME_MAX:
        return name
    return f"{name[:2]}={blake2b(name.encode(), digest_size=20).hexdigest()}"


def listed(partition: Partition) -> str:
    """A string that sorts like (org, user)."""
    return f"{partition.org.encode().hex()}!{partition.user.encode().hex()}"


def end_of(revision: int) -> int:
    """A position after every birth in a revision and in all before it."""
    return packed((revision + 1, 0)) - 1


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Held:
    """A partition's head as it was read; without an ETag there is none yet.

    `veiled`: the partition was erased, and this head is under its veil. `had_veil`: it was erased and is back.
    """

    head: Head = field(default_factory=Head)
    etag: str | None = None
    veiled: bool = False
    had_veil: bool = False


def held_from(document: Document | None) -> Held:
    if document is None:
        return Held()
    return Held(Head(**document["head"]), document["_etag"], had_veil="veil" in document)


def lives(document: Document, epoch: int, now: int) -> bool:
    """Whether a document is a visible record."""
    dead_at = document.get("dead_at")
    return "born" in document and document["epoch"] == epoch and (dead_at is None or dead_at > now)


def records_of(partition: Partition, documents: Iterable[Document]) -> list[Record]:
    """The records in documents of one partition."""
    try:
        return records_from(partition, [_stored(document) for document in documents])
    except (ValueError, TypeError, LookupError):
        raise Corrupt("a stored record cannot be read; run `recollect doctor`", field="store") from None


def _stored(document: Document) -> Stored:
    vector = Vector(document["model"], b64decode(document["vector"])) if "vector" in document else None
    return (
        document["record"], document["layer"], document["session"], _payload(document), vector, document["version"],
        unpacked(document["born"]),
    )  # fmt: skip


def size_of(document: Document) -> int:
    """About how much text there is in a record's document."""
    return len(document.get("payload") or document.get("packed") or "")


def is_whole(partition: Partition, document: Document) -> bool:
    """Whether a document is still what was written."""
    try:
        (record,) = records_of(partition, [document])
    except Corrupt:
        return False
    return bool(digest_of(record, _payload(document)).hex() == document["digest"])


def job_of(document: Document) -> Job:
    """The job in a document."""
    partition = Partition(document["org"], document["user"])
    refs = tuple(document["refs"])
    return Job(document["job"], partition, document["work"], refs, document["due_at"], document["attempt"])


def _payload(document: Document) -> str:
    return b64decode(document["packed"]).decode() if "packed" in document else str(document["payload"])


# ── what a commit touches, and what it writes ────────────────────────────────────────────────────


def touched_names(prepared: Prepared) -> list[str]:
    """The names of the documents whose state decides a commit."""
    changes = prepared.changes
    names = [record_name(id) for id in touched_ids(changes)]
    names += {job_name(job.id) for job in (*changes.finish, *changes.enqueue)}
    return names + ([key_name(prepared.key_hash)] if prepared.key_hash else [])


def known_from(head: Head, prepared: Prepared, documents: Mapping[str, Document], now: int) -> Known:
    """What `decide` needs to know."""
    changes = prepared.changes
    metas = {
        id: _meta(found)
        for id in touched_ids(changes)
        if (found := documents.get(record_name(id))) and found["epoch"] == head.epoch
    }
    jobs = {
        job.id: found["attempt"]
        for job in changes.finish
        if (found := documents.get(job_name(job.id))) and found["epoch"] == head.epoch
    }
    key = documents.get(key_name(prepared.key_hash)) if prepared.key_hash else None
    once = None
    if key is not None and key["at"] + KEY_LIFE_MS > now:
        once = bytes.fromhex(key["digest"]), key["result"]
    return Known(head, metas, jobs, once)


def _meta(document: Document) -> Meta:
    born = unpacked(document.get("born", 0))
    digest = bytes.fromhex(document.get("digest", ""))
    return Meta(document["version"], digest, born, "dropped" in document, document.get("dead_at"))


def write_head(partition: Partition, held: Held, head: Head) -> Operation:
    """Create a head, or replace the one that was read."""
    document: Document = {
        "id": "head",
        "partition": partition_name(partition),
        "org": partition.org,
        "user": partition.user,
        "listed": listed(partition),
        "head": head._asdict(),
    }
    returns = held.veiled and not is_veil(partition)
    if returns or held.had_veil:
        document["veil"] = True
    return Operation("replace", document, held.etag) if held.etag and not returns else Operation("create", document)


def veil_head(partition: Partition, head: Head) -> Operation:
    """Write the head of an erased partition under its veil, overwriting whatever was there."""
    return Operation("upsert", write_head(veil_of(partition), Held(), head).document)


def writes_of(
    prepared: Prepared, plan: Plan, held: Held, documents: Mapping[str, Document], now: int, home: Partition
) -> list[Operation]:
    """All writes of a commit except the head's, into the partition that holds the head.

    The check that the head is unchanged covers everything but the jobs, which a claim changes without the head.
    """
    name, epoch = partition_name(home), held.head.epoch
    writes = [Operation("upsert", _record_document(name, epoch, plan.revision, each)) for each in plan.write]
    for id in plan.drop:
        left = {"id": record_name(id), "partition": name, "record": id, "epoch": epoch, "revision": plan.revision}
        version = documents[record_name(id)]["version"]
        writes.append(Operation("upsert", {**left, "version": version, "dropped": True, "dead_at": now}))
    writes += _job_writes(prepared, name, epoch, documents)
    if prepared.key_hash:
        key = {"id": key_name(prepared.key_hash), "partition": name, "digest": prepared.digest.hex()}
        writes.append(Operation("upsert", {**key, "result": plan.revision, "at": now}))
    return writes


def _job_writes(prepared: Prepared, name: str, epoch: int, documents: Mapping[str, Document]) -> list[Operation]:
    """One write for each job: a batch may not touch a document twice."""
    writes: dict[str, Operation] = {}
    for job in prepared.changes.finish:
        known = documents[job_name(job.id)]
        writes[known["id"]] = Operation("delete", {"id": known["id"]}, known["_etag"])
    for job in prepared.changes.enqueue:
        document = _job_document(name, epoch, job)
        id = document["id"]
        finished = writes.get(id)
        if finished is not None and finished.kind == "delete":
            writes[id] = Operation("replace", document, finished.etag)
        elif finished is None and (id not in documents or documents[id]["epoch"] != epoch):
            writes[id] = Operation("upsert", document)
    return list(writes.values())


def _record_document(name: str, epoch: int, revision: int, written: Written) -> Document:
    record = written.sealed.record
    document: Document = {
        "id": record_name(record.id),
        "partition": name,
        "record": record.id,
        "layer": record.layer,
        "session": record.scope.session,
        "epoch": epoch,
        "revision": revision,
        "born": packed(written.born),
        "version": written.version,
        "digest": written.sealed.digest.hex(),
        **_body(written.sealed),
    }
    if record.expires_at is not None:
        document["dead_at"] = record.expires_at
    return document


def _body(sealed: Sealed) -> Mapping[str, Any]:
    """The payload as text, or as base64 where that is shorter: quotes and non-ASCII characters can
    take six bytes on the wire, and 1 MiB of them must fit into the 2 MB of a batch."""
    raw, vector = sealed.payload.encode(), sealed.record.vector
    encoded = b64encode(raw).decode()
    longer = len(json.dumps(sealed.payload)) > len(encoded) + 2
    body = {"packed": encoded} if longer else {"payload": sealed.payload}
    return body if vector is None else {**body, "model": vector.model, "vector": b64encode(vector.data).decode()}


def _job_document(name: str, epoch: int, job: Job) -> Document:
    return {
        "id": job_name(job.id),
        "partition": name,
        "org": job.partition.org,
        "user": job.partition.user,
        "job": job.id,
        "work": job.kind,
        "refs": list(job.refs),
        "due_at": job.due_at,
        "attempt": job.attempt,
        "epoch": epoch,
    }


def taken(document: Document, due_at: int) -> Document:
    """A job's document for its next attempt."""
    return plain(document) | {"attempt": document["attempt"] + 1, "due_at": due_at}


def plain(document: Document) -> Document:
    """A document without the fields that the service adds."""
    return {name: value for name, value in document.items() if not name.startswith("_")}
