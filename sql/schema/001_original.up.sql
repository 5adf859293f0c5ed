-- The original's schema, version 1: its tables, columns, types and index names.
create type :"schema".durable_status as enum
  ('runnable', 'executing', 'awaiting_signal', 'done', 'failed');

create table :"schema".gen_durable (
  id               bigint generated always as identity primary key,
  fsm              text not null,
  fsm_version      int not null default 1,
  step             text not null,
  status           :"schema".durable_status not null default 'runnable',
  state            jsonb not null default '{}',
  result           jsonb,
  awaits           text,
  queue            text not null default 'default',
  priority         smallint not null default 0,
  partition_key    text,
  eligible_at      timestamptz not null default now(),
  attempt          int not null default 0,
  last_error       text,
  locked_by        text,
  lease_expires_at timestamptz,
  unique_key       bytea,
  unique_scope     :"schema".durable_status[] not null default '{}',
  unique_guard     bytea generated always as (
    case when unique_key is not null and status = any(unique_scope)
         then unique_key end
  ) stored,
  inserted_at      timestamptz not null default now(),
  updated_at       timestamptz not null default now()
);

create index gen_durable_pick on :"schema".gen_durable (queue, priority, eligible_at)
  where status = 'runnable';

create index gen_durable_lease on :"schema".gen_durable (lease_expires_at)
  where status = 'executing';

create unique index gen_durable_unique on :"schema".gen_durable (unique_guard)
  where unique_guard is not null;

create table :"schema".signals (
  id          bigint generated always as identity primary key,
  target_id   bigint not null references :"schema".gen_durable (id) on delete cascade,
  name        text not null,
  payload     jsonb not null default '{}',
  dedup_key   text,
  inserted_at timestamptz not null default now(),
  unique (target_id, dedup_key)
);

create index signals_target on :"schema".signals (target_id, name);

comment on table :"schema".gen_durable is 'gen_durable schema 1, works with libraries from 1';
