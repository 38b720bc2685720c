"""The verbs of the contract as functions in the database: one call, one round trip, one transaction.

Each function first declares whose rows it is about (`recollect.org`, `recollect.usr`): row-level
security then hides all others, even from a query that forgets its filter. Everything that writes a
partition takes the same advisory lock, which queues writers in order of arrival and is held until the
transaction ends, so revisions have no gaps and no reader can miss one.

Functions that read are declared stable, so that the head and the rows come from one snapshot. Plans are
generic and made once, perhaps while all tables are empty, so every query names a partition and has an
index of its own, the only one that fits it. Rows looked up by id are never joined, since a plan made for
empty tables might scan everything for each of them: they are looked up one by one (`lateral`, `limit 1`),
or by a list built beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.stores.contract import PLACE_BITS

_ENTER = "perform set_config('recollect.org', of_org, true), set_config('recollect.usr', of_usr, true);"
_LOCK = "perform pg_advisory_xact_lock(hashtextextended(of_org || chr(31) || of_usr, 0));"
_PLANS = "set plan_cache_mode = force_generic_plan set enable_seqscan = off"
# An erased partition is kept under a name that does not reveal whose it was (`veil`); `named` is its current name.
# The veil is looked up only where the plain name is unknown, which costs existing partitions nothing.
_HEAD = """
  named := of_usr;
  select * into head from heads where org = of_org and usr = of_usr;
  if not found then
    perform set_config('recollect.usr', veil, true);
    select * into head from heads where org = of_org and usr = veil;
    if found then
      named := veil;
    else
      head := row(of_org, of_usr, 1, 0, 0, 0);
      perform set_config('recollect.usr', of_usr, true);
    end if;
  end if;"""
_RENAME = """
    perform set_config('recollect.reach', 'org', true);
    update heads set usr = {new} where org = of_org and usr = {old};
    update once set usr = {new} where org = of_org and usr = {old};
    perform set_config('recollect.reach', '', true), set_config('recollect.usr', {new}, true);
    named := {new};"""
_LIVING = """select r.version, r.digest, r.born from (
      select r.* from records r where r.org = of_org and r.usr = of_usr and r.id = p.id limit 1) r
      where r.epoch = head.epoch and not r.dropped and (r.dead_at is null or r.dead_at > at_time)"""
"""Looked up by id first: with the other conditions beside it, a plan could walk another index past all the rest."""


_COMMIT_TYPES = (
    "text", "text", "text", "bigint", "bigint", "bytea", "bytea", "bigint", "text[]", "text[]", "integer[]",
    "text[]", "bigint[]", "text[]", "text[]", "bigint[]", "bytea[]", "text[]", "text[]", "bytea[]", "halfvec[]",
    "text[]", "text[]", "text[]", "text[]", "bigint[]", "integer[]",
)  # fmt: skip


ADD_TYPES = (
    "text", "text[]", "text[]", "integer[]",
    "integer[]", "integer[]", "bigint[]", "bytea[]", "bytea[]",
    "integer[]", "bigint[]", "text[]", "text[]", "text[]", "bigint[]", "bytea[]", "text[]",
    "integer[]", "text[]", "text[]", "text[]", "bigint[]", "integer[]",
)  # fmt: skip
"""The types of the arguments of `commit_additions`, in order."""


def call(columns: str, function: str, types: Sequence[str]) -> bytes:
    """The statement that calls a function. Arrays are sent in binary form."""
    values = (f"%b::{type}" if type.endswith("[]") else f"%s::{type}" for type in types)
    return f"select {columns} from {function}({', '.join(values)})".encode()


def commit_types(*, with_vectors: bool) -> list[str]:
    """The types of the arguments of `commit_changes`, in order."""
    return [type for type in _COMMIT_TYPES if with_vectors or type != "halfvec[]"]


_CHECK = f"""
  {_HEAD}
  if key_hash is not null then
    select * into known from once
      where org = of_org and usr = named and key = key_hash and at > at_time - key_life;
    if found then
      outcome := case when known.digest = key_digest then 'done' else 'key' end;
      reached := known.revision;
      return;
    end if;
  end if;
  if epoch_read <> head.epoch then
    outcome := 'epoch';
    return;
  end if;
  if ended is not null and exists (
    select from unnest(ended, ended_attempts) as e (id, attempt) left join lateral (
      select j.attempt from jobs j where j.org = of_org and j.usr = of_usr and j.id = e.id limit 1) j on true
    where j.attempt is distinct from e.attempt)
  then
    outcome := 'finish';
    return;
  end if;
  if needed is not null and exists (
    select from unnest(needed) as p (id) left join lateral ({_LIVING}) r on true where r.version is null)
  then
    outcome := 'needs';
    return;
  end if;
  if put_ids is not null and exists (
    select from unnest(put_ids, put_versions, put_digests) as p (id, version, digest)
      left join lateral ({_LIVING}) r on true
      where case when r.version is null then p.version <> 0
                 else p.digest <> r.digest and p.version <> r.version end)
  then
    outcome := 'id';
    return;
  end if;"""

_UNVEIL = f"""
  if named <> of_usr and (put_ids is not null or job_ids is not null) then
    {_RENAME.format(old="veil", new="of_usr")}
  end if;"""

_SETTLE = """
  if written + buried = 0 then
    reached := head.revision;
  end if;
  insert into heads (org, usr, epoch, revision, floor, forgot)
    values (of_org, named, head.epoch, reached, head.floor, head.forgot)
    on conflict (org, usr) do update set revision = excluded.revision where heads.revision <> excluded.revision;
  if ended is not null then
    delete from jobs where org = of_org and usr = of_usr and id = any(ended);
  end if;
  if job_ids is not null then
    insert into jobs (org, usr, id, kind, refs, due_at, attempt)
      select of_org, of_usr, j.id, j.kind, j.refs, j.due_at, j.attempt
      from unnest(job_ids, job_kinds, job_refs, job_due_at, job_attempts) as j (id, kind, refs, due_at, attempt)
      on conflict do nothing;
  end if;
  if key_hash is not null then
    insert into once (org, usr, key, digest, revision, at)
      values (of_org, named, key_hash, key_digest, reached, at_time)
      on conflict (org, usr, key) do update
        set digest = excluded.digest, revision = excluded.revision, at = excluded.at;
  end if;"""


def commit_function(*, with_vectors: bool) -> str:
    """`commit_changes`: the rule of `contract.decide`, word for word, and the writes.

    A refusal is an answer, not an error: everything is checked before anything is written, so the
    commits of several callers can share one transaction.
    """
    embeddings = "put_embeddings halfvec[]," if with_vectors else ""
    return f"""
create or replace function commit_changes(
  of_org text, of_usr text, veil text, at_time bigint, key_life bigint, key_hash bytea, key_digest bytea,
  epoch_read bigint, needed text[], ended text[], ended_attempts integer[],
  put_ids text[], put_versions bigint[], put_layers text[], put_sessions text[], put_dead_at bigint[],
  put_digests bytea[], put_payloads text[], put_models text[], put_vectors bytea[], {embeddings}
  drop_ids text[], job_ids text[], job_kinds text[], job_refs text[], job_due_at bigint[], job_attempts integer[],
  out outcome text, out reached bigint)
language plpgsql {_PLANS} as $$
declare
  head heads%rowtype;
  named text;
  known once%rowtype;
  written bigint := 0;
  buried bigint := 0;
begin
  {_ENTER}
  {_LOCK}
  {_CHECK}
  {_UNVEIL}
  {_write_records(with_vectors=with_vectors)}
  {_SETTLE}
  outcome := 'done';
end $$"""


def _write_records(*, with_vectors: bool) -> str:
    """Put and drop: a put that changes nothing writes nothing, and an update keeps its birth."""
    given = ", embedding" if with_vectors else ""
    values = ", put_embeddings" if with_vectors else ""
    update = ", embedding = excluded.embedding" if with_vectors else ""
    clear = ", embedding = null" if with_vectors else ""
    return f"""
  reached := head.revision + 1;
  if put_ids is not null then
    insert into records (
      org, usr, id, epoch, revision, born, version, layer, session, dropped, dead_at, digest, payload, model,
      vector{given})
    select of_org, of_usr, p.id, head.epoch, reached, coalesce(r.born, reached << {PLACE_BITS} | p.place - 1),
      coalesce(r.version + 1, reached), p.layer, p.session, false, p.dead_at, p.digest, p.payload, p.model,
      p.vector{given}
    from unnest(put_ids, put_layers, put_sessions, put_dead_at, put_digests, put_payloads, put_models,
      put_vectors{values}) with ordinality
      as p (id, layer, session, dead_at, digest, payload, model, vector{given}, place)
      left join lateral ({_LIVING}) r on true
    where r.digest is distinct from p.digest
    on conflict (org, usr, id) do update set
      epoch = excluded.epoch, revision = excluded.revision, born = excluded.born, version = excluded.version,
      layer = excluded.layer, session = excluded.session, dropped = false, dead_at = excluded.dead_at,
      digest = excluded.digest, payload = excluded.payload, model = excluded.model, vector = excluded.vector{update};
    get diagnostics written = row_count;
  end if;
  if drop_ids is not null then
    drop_ids := array(select p.id from unnest(drop_ids) as p (id) cross join lateral ({_LIVING}) r);
    update records set revision = reached, dropped = true, dead_at = at_time, digest = '', payload = '',
      model = null, vector = null{clear}
    where org = of_org and usr = of_usr and id = any(drop_ids);
    get diagnostics buried = row_count;
  end if;"""


ADD = f"""
create or replace function commit_additions(
  several text, orgs text[], usrs text[], counts integer[],
  key_owners integer[], key_turns integer[], key_times bigint[], key_hashes bytea[], key_digests bytea[],
  put_owners integer[], put_steps bigint[], put_ids text[], put_layers text[], put_sessions text[],
  put_dead_at bigint[], put_digests bytea[], put_payloads text[],
  job_owners integer[], job_ids text[], job_kinds text[], job_refs text[], job_due_at bigint[], job_attempts integer[],
  out starts bigint[])
language plpgsql {_PLANS} as $$
declare
  said text := set_config('recollect.several', several, true);
  free boolean[];
  epochs bigint[];
begin
  -- The locks in a statement of their own: the next one sees what was written before they were free.
  free := array(
    select pg_try_advisory_xact_lock(hashtextextended(orgs[n] || chr(31) || usrs[n], 0))
    from generate_series(1, cardinality(orgs)) as n order by n);
  select array_agg(h.epoch order by n), array_agg(h.revision order by n) into epochs, starts
    from generate_series(1, cardinality(orgs)) as n left join lateral (
      select h.epoch, h.revision from heads h where h.org = orgs[n] and h.usr = usrs[n] limit 1) h
      on free[n] and n <> all(array(
        select key_owners[n] from generate_series(1, cardinality(key_hashes)) as n cross join lateral (
          select from once o
          where o.org = orgs[key_owners[n]] and o.usr = usrs[key_owners[n]] and o.key = key_hashes[n] limit 1) o
        union all
        select put_owners[n] from generate_series(1, cardinality(put_ids)) as n cross join lateral (
          select from records r
          where r.org = orgs[put_owners[n]] and r.usr = usrs[put_owners[n]] and r.id = put_ids[n] limit 1) r));
  with moved as (
    insert into heads (org, usr, epoch, revision, floor, forgot)
    select orgs[n], usrs[n], epochs[n], starts[n] + counts[n], 0, 0
    from generate_series(1, cardinality(orgs)) as n where starts[n] is not null
    on conflict (org, usr) do update set revision = excluded.revision),
  put as (
    insert into records (
      org, usr, id, epoch, revision, born, version, layer, session, dropped, dead_at, digest, payload)
    select orgs[p.owner], usrs[p.owner], put_ids[n], epochs[p.owner], p.revision,
      (starts[p.owner] << {PLACE_BITS}) + put_steps[n], p.revision, put_layers[n], put_sessions[n], false,
      put_dead_at[n], put_digests[n], put_payloads[n]
    from generate_series(1, cardinality(put_ids)) as n cross join lateral (
      select put_owners[n] as owner, starts[put_owners[n]] + (put_steps[n] >> {PLACE_BITS}) as revision) p
    where p.revision is not null),
  enqueued as (
    insert into jobs (org, usr, id, kind, refs, due_at, attempt)
    select orgs[job_owners[n]], usrs[job_owners[n]], job_ids[n], job_kinds[n], job_refs[n], job_due_at[n],
      job_attempts[n]
    from generate_series(1, cardinality(job_ids)) as n where starts[job_owners[n]] is not null
    on conflict do nothing)
  insert into once (org, usr, key, digest, revision, at)
    select orgs[key_owners[n]], usrs[key_owners[n]], key_hashes[n], key_digests[n],
      starts[key_owners[n]] + key_turns[n], key_times[n]
    from generate_series(1, cardinality(key_hashes)) as n where starts[key_owners[n]] is not null;
end $$"""
"""Many commits at once that only add. Returns for each partition the revision that its commits follow, or null.

The rule of `commit_changes` is not repeated here: a partition's commits are left for that function if any of their keys
or ids was seen before, if another process is writing the partition, or if it has no head under its name. An owner
is the position of a partition in `orgs` and `usrs`; a step is the turn of a commit in its partition together with the
place in that commit.
"""


GET = f"""
create or replace function get_records(of_org text, of_usr text, at_time bigint, ids text[])
returns setof records language plpgsql stable {_PLANS} as $$
declare
  current bigint;
begin
  {_ENTER}
  select epoch into current from heads where org = of_org and usr = of_usr;
  return query
    select r.* from (
      select r.* from records r where r.org = of_org and r.usr = of_usr and r.id = any(ids) offset 0) r
    where r.epoch = current and not r.dropped and (r.dead_at is null or r.dead_at > at_time);
end $$"""


CHANGES = f"""
create or replace function changes_since(
  of_org text, of_usr text, veil text, mark_epoch bigint, mark_revision bigint, mark_floor bigint, most integer)
returns table (head_epoch bigint, head_revision bigint, head_floor bigint, changed records)
language plpgsql stable {_PLANS} as $$
declare
  head heads%rowtype;
  named text;
  start bigint := mark_revision;
begin
  {_ENTER}
  {_HEAD}
  head_epoch := head.epoch;
  head_revision := head.revision;
  head_floor := head.floor;
  return next;
  if mark_epoch is distinct from head.epoch or head.floor > greatest(mark_revision, mark_floor) then
    start := 0;
  end if;
  start := greatest(start, head.forgot);
  if head.revision > start then
    return query select head.epoch, head.revision, head.floor, r from records r
      where r.org = of_org and r.usr = of_usr and r.revision > start and r.revision > 0 and r.epoch = head.epoch
      order by r.revision limit most;
  end if;
end $$"""


def page_name(*, newest_first: bool, of_session: bool) -> str:
    """The name of the function that walks in this direction along this index."""
    return f"{'newest' if newest_first else 'oldest'}{'_of_session' if of_session else ''}"


def page_function(*, newest_first: bool, of_session: bool) -> str:
    """A page in order of birth: one walk along an index per layer, merged. The cost is that of the page alone."""
    # The empty session is not in the session index: either nearly everything has it, or nothing.
    session = "r.session = in_session and r.session <> ''" if of_session else "(in_session is null or r.session = '')"
    order = f"r.born {'desc' if newest_first else 'asc'}"
    return f"""
create or replace function {page_name(newest_first=newest_first, of_session=of_session)}(
  of_org text, of_usr text, at_time bigint, in_layers text[], in_session text,
  low bigint, high bigint, most integer)
returns setof records language plpgsql stable {_PLANS} set enable_bitmapscan = off as $$
declare
  current bigint;
begin
  {_ENTER}
  select epoch into current from heads where org = of_org and usr = of_usr;
  if in_layers is null then
    in_layers := layers_of(of_org, of_usr, current);
  end if;
  return query
    select r.* from unnest(in_layers) as l (layer) cross join lateral (
      select r.* from records r
      where r.org = of_org and r.usr = of_usr and r.epoch = current and r.layer = l.layer and not r.dropped
        and (r.dead_at is null or r.dead_at > at_time) and {session}
        and r.born > low and r.born < high
      order by {order} limit most) r
    order by {order} limit most;
end $$"""


LAYERS = f"""
create or replace function layers_of(of_org text, of_usr text, of_epoch bigint)
returns text[] language plpgsql stable {_PLANS} as $$
begin
  -- From one layer to the next by the index, whatever each of them holds.
  return array(
    with recursive found (layer) as (
      (select r.layer from records r
       where r.org = of_org and r.usr = of_usr and r.epoch = of_epoch and not r.dropped order by r.layer limit 1)
      union all
      select (select r.layer from records r
              where r.org = of_org and r.usr = of_usr and r.epoch = of_epoch and not r.dropped
                and r.layer > found.layer order by r.layer limit 1)
      from found where found.layer is not null)
    select layer from found where layer is not null);
end $$"""


_PURGE_GARBAGE = """
  doomed := array(
    select id from records
    where org = of_org and usr = of_usr and revision < head.forgot and revision > 0 limit most);
  delete from records where org = of_org and usr = of_usr and id = any(doomed);
  get diagnostics removed = row_count;"""

# Rows awaiting removal are still under the plain name: the veil is drawn when the last of them is gone.
_DRAW = f"""
  if head.forgot > 0 and head.forgot = head.revision and named <> veil
    and not exists (select from records where org = of_org and usr = of_usr)
    and not exists (select from jobs where org = of_org and usr = of_usr) then
    {_RENAME.format(old="of_usr", new="veil")}
  end if;"""

FORGET = f"""
create or replace function forget_whole(
  of_org text, of_usr text, veil text, at_time bigint, ending bigint, most integer,
  out counted bigint, out removed bigint, out ended bigint)
language plpgsql {_PLANS} as $$
declare
  head heads%rowtype;
  named text;
  doomed text[];
begin
  {_ENTER}
  {_LOCK}
  {_HEAD}
  insert into heads (org, usr, epoch, revision, floor, forgot) values (of_org, named, 1, 0, 0, 0)
    on conflict do nothing;
  counted := 0;
  ended := coalesce(ending, head.epoch);
  if ended = head.epoch then
    select count(*) into counted from records
      where org = of_org and usr = of_usr and epoch = head.epoch and not dropped
        and (dead_at is null or dead_at > at_time);
    update heads set epoch = epoch + 1, revision = revision + 1, forgot = revision + 1
      where org = of_org and usr = named returning * into head;
    delete from jobs where org = of_org and usr = of_usr;
  end if;
  {_PURGE_GARBAGE}
  {_DRAW}
end $$"""

PURGE = f"""
create or replace function purge_dead(
  of_org text, of_usr text, veil text, before bigint, most integer,
  out removed bigint, out purged bigint, out next_at bigint)
language plpgsql {_PLANS} as $$
declare
  head heads%rowtype;
  named text;
  doomed text[];
  highest bigint;
begin
  {_ENTER}
  {_LOCK}
  {_HEAD}
  {_PURGE_GARBAGE}
  doomed := array(
    select id from records
    where org = of_org and usr = of_usr and dead_at < before and epoch = head.epoch
    limit greatest(most - removed, 1));
  with gone as (
    delete from records where org = of_org and usr = of_usr and id = any(doomed) returning revision)
  select count(*), max(revision) into purged, highest from gone;
  -- In the same transaction: a reader from below the floor has to start again.
  update heads set floor = highest where org = of_org and usr = named and floor < highest;
  delete from once where org = of_org and usr = named and at < before;
  select least(
    (select min(dead_at) from records
      where org = of_org and usr = of_usr and dead_at is not null and epoch = head.epoch),
    (select min(at) from once where org = of_org and usr = named)) into next_at;
  {_DRAW}
end $$"""

CLAIM = f"""
create or replace function claim_jobs(at_time bigint, until bigint, most integer)
returns setof jobs language plpgsql {_PLANS} as $$
begin
  -- Not waited for on the disk: a lease whose loss in a crash loses nothing, for its holder is known
  -- by what it commits, and that is flushed in order.
  perform set_config('recollect.reach', 'all', true), set_config('synchronous_commit', 'off', true);
  return query
    with due as (
      select j.org, j.usr, j.id, j.due_at from jobs j where j.due_at <= at_time
      order by j.due_at limit most for update skip locked),
    taken as (
      update jobs j set attempt = j.attempt + 1, due_at = until from due
      where j.org = due.org and j.usr = due.usr and j.id = due.id returning j.*, due.due_at as was)
    select t.org, t.usr, t.id, t.kind, t.refs, t.due_at, t.attempt from taken t order by t.was;
end $$"""

FUNCTIONS = (
    ADD,
    GET,
    CHANGES,
    LAYERS,
    *(
        page_function(newest_first=newest_first, of_session=of_session)
        for newest_first in (False, True)
        for of_session in (False, True)
    ),
    FORGET,
    PURGE,
    CLAIM,
)
"""Every function but the commit, in an order in which they can be created."""
