-- The ledger: how many transitions an instance has made; and each of them, where its machine asks for that.
-- Expands only: libraries before this one go on beside it. They do not count what they write in seq, and enter nothing into
-- the ledger: so until the schema is activated, seq is too small where they have worked, and no row gets history
-- (gd_keeps_history).

-- seq grows with each outcome, and where the engine makes a row runnable again or fails it; not with a pick, a give-back, a
-- heartbeat or a wake-up. history: 0 none, 1 steps, 2 states as well. ledger_step repeats step, of rows with history only: an
-- index that has step itself would end HOT updates, of all rows. No index has seq or history.
alter table :"schema".gen_durable
  add column seq         bigint not null default 0,
  add column history     smallint not null default 0,
  add column ledger_step text;
create index gen_durable_ledger_step on :"schema".gen_durable (fsm, ledger_step, id)
  where ledger_step is not null;

-- What instances get that anybody inserts; and for how long entries are kept: null, for ever.
alter table :"schema".gen_durable_machines
  add column history      smallint not null default 0,
  add column history_keep interval;

-- An entry for each transition, written by the statement that makes it. 0 is the insert. Without a foreign key, which would
-- cost as much again: whoever deletes instances deletes from here, too.
create table :"schema".gen_durable_ledger (
  instance_id bigint not null,
  seq         bigint not null,
  at          timestamptz not null,
  fsm_version int not null,
  outcome     text not null, -- insert, next, replay, await, done, stop, reap, fail
  from_step   text,
  to_step     text not null,
  attempt     int not null,  -- behind it
  token       text,          -- of the lease that it ended
  by          text,          -- who made it, if that was not the engine
  wake_reason text,          -- that the step was told
  reason      text,          -- what has failed, whatever was made of that
  metadata    jsonb,
  state       jsonb,         -- behind it, if history has states
  primary key (instance_id, seq)
);

create view :"schema".gen_durable_transitions with (security_invoker = true) as
  select l.*, l.seq as sort_key, (l.seq = g.seq) is true as most_recent
  from :"schema".gen_durable_ledger l
  left join :"schema".gen_durable g on g.id = l.instance_id;

-- Whether rows get history: no library works with them that does not write it.
create function :"schema".gd_keeps_history() returns boolean
language sql stable
begin atomic
  select substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class')
                   from '[0-9]+$')::int >= 11;
end;

-- Entry 0. A function by itself: who inserts what has no history needs no rights to the ledger.
create function :"schema".gd_enter_insert(
  id bigint, at timestamptz, version int, step text, state jsonb)
returns void
language sql
begin atomic
  insert into :"schema".gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
  values (gd_enter_insert.id, 0, gd_enter_insert.at, gd_enter_insert.version, 'insert', gd_enter_insert.step, 0,
    gd_enter_insert.state);
end;

-- As before, with the history that nodes have made known of the machine.
create or replace function :"schema".gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".durable_status[],
  out instance bigint, out duplicate boolean)
language sql
begin atomic
  with machine as materialized (
    select m.history
    from :"schema".gen_durable_machines m
    where m.fsm = gd_insert_row.fsm and m.version = gd_insert_row.version and m.history > 0
      and :"schema".gd_keeps_history()
  ), made as (
    insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
      unique_key, unique_scope, history, ledger_step)
    overriding system value
    values (gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
      gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
      gd_insert_row.unique_key, gd_insert_row.unique_scope, coalesce((select m.history from machine m), 0),
      (select gd_insert_row.step from machine m))
    on conflict do nothing
    returning *
  )
  select :"schema".gd_enter_insert(m.id, m.updated_at, m.fsm_version, m.step, case when m.history = 2 then m.state end)
  from made m
  where m.history > 0;

  select coalesce(a.made, a.holder, case
      when gd_insert_row.unique_key is null
      then :"schema".gd_refuse('23505', 'another row has its place')
      else :"schema".gd_refuse('40001', 'unique_key: whoever had it has just left it; try again') end),
    a.made is null
  from (
    select
      (select g.id from :"schema".gen_durable g where g.id = gd_insert_row.id) as made,
      (select o.id from :"schema".gen_durable o where o.unique_guard = gd_insert_row.unique_key) as holder) a;
end;

-- What the ledger has of an instance: from one entry on, in their order, or backwards from the newest, or from that one.
create function :"schema".gd_history(
  instance bigint, from_seq bigint default null, most int default 100, newest_first boolean default false)
returns setof :"schema".gen_durable_ledger
language sql stable
begin atomic
  -- One of the two; an order that depends on the argument would read all entries for each page.
  select l.*
  from (
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = gd_history.instance and not gd_history.newest_first
        and e.seq >= coalesce(gd_history.from_seq, 0)
      order by e.seq
      limit least(greatest(gd_history.most, 1), 10000)
    )
    union all
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = gd_history.instance and gd_history.newest_first
        and e.seq <= coalesce(gd_history.from_seq, 9223372036854775807)
      order by e.seq desc
      limit least(greatest(gd_history.most, 1), 10000)
    )
  ) l
  order by case when gd_history.newest_first then -l.seq else l.seq end;
end;

-- Instances with history that are in a step, the newest first: before one, and with a status, if these are given. Compared
-- such that no other index has the order.
create function :"schema".gd_in_step(
  fsm text, step text, status text default null, before bigint default null, most int default 100)
returns table (id bigint, version int, status text, seq bigint, updated_at timestamptz)
language sql stable
begin atomic
  select g.id, g.fsm_version, g.status::text, g.seq, g.updated_at
  from :"schema".gen_durable g
  where (g.fsm, g.ledger_step, g.id) < (gd_in_step.fsm, gd_in_step.step, coalesce(gd_in_step.before, 9223372036854775807))
    and (g.fsm, g.ledger_step) >= (gd_in_step.fsm, gd_in_step.step) and g.ledger_step is not null
    and (gd_in_step.status is null or g.status::text = gd_in_step.status)
  order by g.fsm desc, g.ledger_step desc, g.id desc
  limit least(greatest(gd_in_step.most, 1), 10000);
end;

select :"schema".gd_note_version(11);
