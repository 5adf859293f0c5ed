-- The tables, as they are: each column, constraint and index once, with what it is for.
-- PostgreSQL decides by the columns of all indexes, those of their conditions too, whether an update stays on its page (HOT). So no
-- index of instances has a column that each step changes, status among them: what is runnable, and what executes, stand in small
-- tables of their own, gen_durable_due and gen_durable_leases.

create type :"schema".gen_durable_status as enum
  ('runnable', 'executing', 'awaiting_signal', 'done', 'failed');

-- -- instances ----------------------------------------------------------------------

create table :"schema".gen_durable (
  id               bigint generated always as identity primary key, -- across failovers, too: see gen_durable_timeline
  inserted_at      timestamptz not null default now(),
  fsm_version      int not null default 1,                 -- of the machine, fsm, which a row keeps until it is upgraded
  priority         smallint not null default 0,            -- the lowest number first
  -- What each step writes stands side by side, what none writes before it and behind it: of an update that stays on its page
  -- (HOT) the WAL has what is between the first byte that changes and the last. What is never null and has a fixed length comes
  -- first: PostgreSQL finds it without looking at what is before it.
  status           :"schema".gen_durable_status not null default 'runnable',
  attempt          int not null default 0,                 -- tries of this step that have failed, or were cut off
  -- Ends of the process that ran its step, and how often the step has run alone since it got anywhere. Of suspects, which have
  -- two ends or more, a process runs few at once.
  crashes          int not null default 0,
  trials           int not null default 0,
  eligible_at      timestamptz not null default now(),     -- not to be picked before
  -- Grows with each outcome, and where the engine makes a row runnable again or fails it; not with a pick, a release, a
  -- heartbeat or a wake-up.
  seq              bigint not null default 0,
  updated_at       timestamptz not null default now(),     -- when the status, or the outcome, was written
  fsm              text not null,                          -- the machine: before what may be null, it is found faster
  lease_expires_at timestamptz,                            -- until then nobody takes it for left behind
  locked_by        text,                                   -- lease token of who executes it: incarnation/number
  result           jsonb,                                  -- of what is done
  step             text not null,                          -- that is to run, or runs; where it rests, or has ended
  state            jsonb not null default '{}',            -- an object: see _gd_check_state
  queue            text not null default 'default',
  traceparent      text default :"schema"._gd_traceparent(), -- of what has asked for it (W3C)
  awaits           text,                                   -- the signal that a parked row waits for; '': none, it rests
  awaits_also      text[],                                 -- the other names, of a row that waits for any of several
  deadline         timestamptz,                            -- a parked row is woken then, whatever has come
  wake_reason      text check (wake_reason in ('signal', 'timeout')), -- what its step is told; parked: its wake-up is owed
  last_error       text,                                   -- what the last of the tries that failed was told
  partition_key    text,                                   -- of rows with the same one, one executes at a time, in pick order
  unique_key       bytea,                                  -- also an address: _gd_address
  unique_scope     :"schema".gen_durable_status[] not null default '{}', -- the statuses in which it holds the key
  -- The key, while it is held, and the id, of what has failed: few among many. Who writes the status writes both; for those who
  -- do not a trigger does (_gd_see_to).
  unique_guard     bytea,
  failed_id        bigint,
  -- 1 steps, 2 states as well. None is null: each version of such a row is eight bytes shorter, and has a column less to look at.
  history          smallint,
  ledger_step      text,                                   -- the step again, of rows with history only: for its index
  expires_at       timestamptz,                            -- when a finished row is to be deleted; null: never
  -- Which ends of processes it is charged with, each by a hash of the incarnation (hashtextextended), or of a worker's: the last
  -- `crashes` of them, or as many as are remembered, the oldest first; without crashes it says nothing. Reaps write it,
  -- never an outcome; where nothing crashes it is null.
  crashed_in       bigint[],
  -- How many ends of its process another row has caused, since an outcome; null: none. They are no failures of the step: these
  -- are attempt - crashes - excused.
  excused          int,

  -- A key that is free while its row is runnable and taken when it executes would make picks collide.
  constraint gen_durable_unique_scope
    check ('runnable' = any(unique_scope) or not 'executing' = any(unique_scope)),
  -- An executing row whose lease is over cannot become runnable while another has its unique key, and that one cannot be
  -- picked while a row of its partition key executes: they would wait for each other.
  constraint gen_durable_unique_partition
    check (partition_key is null or not 'runnable' = any(unique_scope) or 'executing' = any(unique_scope)),
  -- Nobody could ever run, or end, one without: sweeps go by its lease, outcomes by its token.
  constraint gen_durable_executing
    check (status <> 'executing' or locked_by is not null and lease_expires_at is not null),
  -- Nothing would ever wake one without.
  constraint gen_durable_awaiting
    check (status <> 'awaiting_signal' or awaits is not null)
) with (
  -- A row is written twice in a step: where half of its page is free, both stay on it, and no index has to know.
  fillfactor = 45,
  -- By the number of changes, whatever the size of the table: what finished rows have left is to be free for the next ones.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000
);

-- Of a unique key, one row holds it, whatever its machine; and by its key it is found.
create unique index gen_durable_unique on :"schema".gen_durable (unique_guard)
  where unique_guard is not null;

-- Parked rows whose time is over, for sweeps. What waits for nothing is not parked.
create index gen_durable_deadline on :"schema".gen_durable (deadline)
  where awaits is not null and deadline is not null;

-- Parked rows whose wake-up is due, but might collide with another row's unique key: woken one by one.
create index gen_durable_owed on :"schema".gen_durable (id)
  where awaits is not null and wake_reason is not null;

-- Instances with history by their step, for gd_in_step. By step itself, no update of any row would be HOT.
create index gen_durable_ledger_step on :"schema".gen_durable (fsm, ledger_step, id)
  where ledger_step is not null;

-- Failed instances. No update of a row that does not fail, or come back, has to do with it.
create index gen_durable_failed on :"schema".gen_durable (failed_id) where failed_id is not null;

-- What is to be deleted next.
create index gen_durable_expires on :"schema".gen_durable (expires_at, id) where expires_at is not null;

-- -- what is due, and what executes -------------------------------------------------

-- A row for each instance that is runnable, with what its pick goes by; and for each with a partition key that executes, so that no
-- other one of its key begins. Whatever makes an instance so writes it, in the same transaction: the library's statements by
-- themselves, for all others triggers do it (functions/due.sql). A pick deletes it: the table is as large as what waits. It is found
-- by its place in the pick order, or by its key: an index of ids would cost each insert and each step as much as all the others.
create table :"schema".gen_durable_due (
  id            bigint not null,
  eligible_at   timestamptz not null,
  fsm_version   int not null,
  crashes       int not null default 0,
  priority      smallint not null,
  executes      boolean not null default false, -- of rows with a partition key alone
  fsm           text not null,
  queue         text not null,
  partition_key text
) with (
  -- A pick passes over the index entries of rows that were worked off since the last vacuum.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, vacuum_index_cleanup = on
);

-- Picks cost as much as they take, whatever lies in the table: one machine version's rows of one priority are neighbours, in
-- pick order, ties broken by id. What tells one version's rows in a queue from another's, their place, is a hash of the three:
-- names in the index would cost each insert a quarter more. Those of two versions that have the same place are told apart by their
-- names. First those without a partition key, which are no suspects.
create index gen_durable_due_free on :"schema".gen_durable_due
  (hashtextextended(queue, hashtextextended(fsm, fsm_version)), priority, eligible_at, id)
  where (partition_key is null) is true and crashes < 2;

-- The same for rows with a key; and their keys, for when the backlog of a few fills the front. The conditions differ, so that
-- no plan made for empty tables takes one of these for another.
create index gen_durable_due_keyed on :"schema".gen_durable_due
  (hashtextextended(queue, hashtextextended(fsm, fsm_version)), priority, eligible_at, id)
  where partition_key is not null and not executes;
create index gen_durable_due_keys on :"schema".gen_durable_due
  (hashtextextended(queue, hashtextextended(fsm, fsm_version)), partition_key)
  where partition_key > '' and not executes;

-- Suspects, with a partition key or without.
create index gen_durable_due_suspects on :"schema".gen_durable_due
  (hashtextextended(queue, hashtextextended(fsm, fsm_version)), priority, eligible_at, id)
  where crashes >= 2 and not executes;

-- A key's first row, and whether one of its rows executes.
create index gen_durable_due_key on :"schema".gen_durable_due
  (partition_key, executes, priority, eligible_at, id)
  where partition_key is not null;

-- A row for each lease token that a pick has given, or a step that goes on: each instance that executes stands in the row of its
-- token (gen_durable.locked_by). Others that stand there are over, and so is the whole row when all of them are: a sweep takes it
-- away. The end of a lease is the instance's own; here stands when to look at the row: when the first may end, or soon after the pick.
create table :"schema".gen_durable_leases (
  expires_at timestamptz not null,
  token      text not null,
  ids        bigint[] not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
alter table :"schema".gen_durable_due replica identity full; -- for whoever publishes all tables
alter table :"schema".gen_durable_leases replica identity full;
alter table :"schema".gen_durable_leases alter column ids set storage external; -- to pack them takes longer than to write them
create index gen_durable_leases_end on :"schema".gen_durable_leases (expires_at);
create index gen_durable_leases_token on :"schema".gen_durable_leases (token);

-- -- signals ------------------------------------------------------------------------

create table :"schema".gen_durable_signals (
  id          bigint generated always as identity primary key,
  target_id   bigint not null references :"schema".gen_durable (id) on delete cascade,
  name        text not null,
  payload     jsonb not null default '{}',
  dedup_key   text,        -- given by the sender: the same one is stored once
  inserted_at timestamptz not null default now(),
  consumed_at timestamptz, -- a tombstone, from then on: what is sent again is known
  traceparent text default :"schema"._gd_traceparent(), -- of what has sent it (W3C)
  unique (target_id, dedup_key) -- serves the foreign key, too
);

-- The inbox: tombstones stay out of it.
create index gen_durable_signals_target on :"schema".gen_durable_signals (target_id, name)
  where consumed_at is null;

-- -- machines -----------------------------------------------------------------------

-- What nodes have made known, so that gdctl, SQL and programs without the machine can insert and move instances of it.
create table :"schema".gen_durable_machines (
  fsm          text not null,
  version      int not null,
  initial_step text not null,
  queue        text not null,
  steps        text[] not null,
  -- Kept by nodes that come and go, and by sweeps: inserts ask this table, not who lives.
  served       boolean not null default false,
  last_served  timestamptz,
  pinned       boolean not null default false, -- by an operator: new instances are of this version
  retired      boolean not null default false, -- takes no more inserts
  -- The transitions that the steps of a machine declare, null for a step that may go anywhere, and under "*", if there is a
  -- handler that makes some, those that it may make whichever step has failed: {"pay": ["cancelled", "ship"], "ship": [],
  -- "*": null}.
  transitions  jsonb,
  history      smallint not null default 0,    -- what instances get that anybody inserts: gen_durable.history, 0 none
  history_keep interval,                       -- for how long entries are kept; null: for ever
  -- What of its steps concerns those outside: where they may move an instance from there, and whether one rests there, for how
  -- long at the most and what then, or ends: {"submitted": {"to": ["cancelled", "paid"], "rests": true, "ends": false,
  -- "after_us": 60000000, "then": "expired"}}. Steps without any of that are not in it.
  outside      jsonb,
  forget_dedup_after interval,                 -- of consumed signals; null: with the instance
  -- For how long instances are kept, by the status in which they have ended, in us, and how young nothing may be that is deleted
  -- (resend): null, for ever.
  retention    jsonb,
  -- What its states look like, and the payloads of the signals that it tells of, by name, as JSON Schema: who writes one by hand is
  -- told of a name, or a type, that no step can read (_gd_shape_fault). {"state": {"type": "object", "properties": {"order":
  -- {"type": "integer", ...}}, "additionalProperties": false}, "signals": {"paid": {...}}}; {}: a state may be anything.
  shape        jsonb,
  primary key (fsm, version),
  -- What nobody may insert cannot be what all insert.
  constraint gen_durable_machines_pinned check (not (pinned and retired))
);

-- Of a machine, one version is pinned.
create unique index gen_durable_machines_pin on :"schema".gen_durable_machines (fsm) where pinned;

-- -- nodes --------------------------------------------------------------------------

-- The nodes that live, and those that have lived lately. A node that has been silent for longer than its own lease has its
-- sessions ended: a process that is stopped, or cut off, keeps the locks of partition keys for as long as they last. That a node
-- lives says an advisory lock of its incarnation, which its control connection holds.
create table :"schema".gen_durable_nodes (
  incarnation text primary key,         -- of the name, anew with each start of a process
  node        text not null,
  host        text not null,
  process     int not null,
  library     text not null,            -- its version
  lease       interval not null,
  slots       int not null,             -- of all queues
  queues      jsonb not null,           -- [{"name": "mail", ...}]
  machines    jsonb not null,           -- with their steps
  address     text,                     -- where its gateway is found
  sessions    jsonb not null default '[]', -- its connections to this database
  started_at  timestamptz not null default clock_timestamp(),
  seen_at     timestamptz not null default clock_timestamp(),
  knows       int,                      -- the newest version of the schema that its library knows
  refused     jsonb not null default '[]' -- what the database would not do with rows of late: [{"id": 7, "why": "...", "at_us": 0}]
) with (fillfactor = 50);

-- What operators have said about queues; none of it: there is no row.
create table :"schema".gen_durable_queues (
  queue     text primary key,
  paused_at timestamptz, -- null: it is not paused
  paused_by text,
  reason    text
);

-- Who has caused which ends of processes: the other rows are not charged with these. Written once, and deleted: there is
-- nothing to wait for in it.
create table :"schema".gen_durable_crashes (
  process     bigint not null,           -- as in gen_durable.crashed_in
  instance_id bigint not null,           -- who has caused its end; or would have, while the lease of its trial is in force
  token       text,                      -- of that lease; null: of none
  at          timestamptz not null default clock_timestamp(),
  known       boolean not null,          -- false: a trial has begun, no more
  open        boolean not null default false -- there may be suspects that are still charged with it
);

-- What is known of one end.
create index gen_durable_crashes_process on :"schema".gen_durable_crashes (process);

-- -- the ledger ---------------------------------------------------------------------

-- An entry for each transition of a row with history, written by the statement that makes it. 0 is the insert. Without a foreign
-- key, which would cost as much again: whoever deletes instances deletes from here, too.
create table :"schema".gen_durable_ledger (
  instance_id bigint not null,
  seq         bigint not null,           -- of the row, behind it
  at          timestamptz not null,
  fsm_version int not null,
  outcome     text not null,             -- insert, next, replay, await, done, stop, reap, fail, or what was done from outside
  from_step   text,
  to_step     text not null,
  attempt     int not null,              -- behind it
  token       text,                      -- of the lease that it ended
  by          text,                      -- who made it, if that was not the engine
  wake_reason text,                      -- that the step was told
  reason      text,                      -- what has failed, whatever was made of that
  metadata    jsonb,
  state       jsonb,                     -- behind it, if history has states
  effects     int,                       -- how many the outcome has carried; null: none
  primary key (instance_id, seq)
);

create view :"schema".gen_durable_transitions with (security_invoker = true) as
  select l.*, l.seq as sort_key, (l.seq = g.seq) is true as most_recent
  from :"schema".gen_durable_ledger l
  left join :"schema".gen_durable g on g.id = l.instance_id;

-- -- what was erased ----------------------------------------------------------------

-- What is left of an instance that an operator has erased: that there was one, and who wanted it gone. Nothing of what was in it: of
-- its key, state, result, signals and history there is no more. Never trimmed; the reason is the operator's own words.
create table :"schema".gen_durable_erased (
  instance_id bigint primary key,
  fsm         text not null,
  fsm_version int not null,
  status      text not null,             -- that it had then
  seq         bigint not null,           -- the same
  at          timestamptz not null,
  by          text not null,
  reason      text not null
);

-- -- jobs ---------------------------------------------------------------------------

-- What is done with all instances of a filter, in batches, by whoever works on it: a node, or who waits for it.
create table :"schema".gen_durable_jobs (
  id           bigint generated always as identity primary key,
  what         text not null check (what in ('retry', 'stop', 'run_now', 'move', 'upgrade')),
  to_queue     text,        -- of move; null: as it is
  to_priority  smallint,    -- the same
  to_version   int,         -- of upgrade
  target       bigint,      -- of upgrade; null: those of the filter
  to_steps     jsonb,       -- of upgrade: an object, from the names of steps to those of that version; others keep theirs
  fsm          text,        -- of the filter, in which null lets all through
  fsm_version  int,
  step         text,
  status       text,
  queue        text,
  changed_before timestamptz,
  failure      text,        -- that occurs in last_error
  dry_run      boolean not null,
  made_by      text not null,
  reason       text,
  last_id      bigint not null default -9223372036854775808, -- worked off up to this one
  highest_id   bigint not null,           -- where it ends
  examined    bigint not null default 0, -- instances
  changed      bigint not null default 0, -- of these; of a dry run: that would be
  refused      bigint not null default 0, -- that fit the filter, and could not be changed
  last_refusal text,
  refused_ids  bigint[] not null default '{}', -- the first hundred of those
  created_at   timestamptz not null default clock_timestamp(),
  ended_at     timestamptz,
  cancelled    boolean not null default false
);

-- What is to be worked on.
create index gen_durable_jobs_open on :"schema".gen_durable_jobs (id) where ended_at is null;

-- -- the schema itself --------------------------------------------------------------

-- The schema's version, and the oldest library that may work with it: one row. A row, since a dump without comments, as many are
-- made, has no other place for it.
create table :"schema".gen_durable_schema (
  the_only boolean not null default true,
  version int not null,
  works_from int not null,
  constraint gen_durable_schema_pkey primary key (the_only),
  constraint gen_durable_schema_one check (the_only),
  constraint gen_durable_schema_versions check (works_from between 1 and version)
);
insert into :"schema".gen_durable_schema (version, works_from) values (1, 1);

-- The server's timeline when ids were drawn last: a promotion, as a recovery to a point in time, begins another one, and may have
-- lost the last moments of the one before. Ids that were given out in those must not become those of other instances: whoever
-- was told one has it still. So the sequences are raised behind them, once, before anything is drawn (_gd_follow_timeline). A
-- sequence, too: what it is set to is seen at once, whatever becomes of the transaction, and nobody waits for a stranger's.
create sequence :"schema".gen_durable_timeline minvalue 0;

-- lz4 packs faster than PostgreSQL's own method by far, and unpacks faster, too. A server that was built without it goes on with
-- its own.
create function :"schema"._gd_pack_by(method text) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  x record;
begin
  for x in
    values ('gen_durable', 'state'), ('gen_durable', 'result'), ('gen_durable_signals', 'payload'), ('gen_durable_ledger', 'state'),
      ('gen_durable_ledger', 'metadata')
  loop
    execute pg_catalog.format('alter table %I alter column %I set compression %s', x.column1, x.column2, method);
  end loop;
exception when feature_not_supported then
  raise notice 'this server has no %: states are packed by its own method', method;
end
$$;
select :"schema"._gd_pack_by('lz4');
drop function :"schema"._gd_pack_by(text);
