-- Where the library's tables live: what a dump leaves out, what strangers add, what is set on them.

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
insert into :"schema".gen_durable_schema (version, works_from)
select 27, substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class') from '[0-9]+$')::int;
comment on table :"schema".gen_durable is null;

create or replace function :"schema".gd_note_version(version int) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  update gen_durable_schema s
  set version = gd_note_version.version, works_from = least(s.works_from, gd_note_version.version);
end
$$;

-- The oldest library that may work here. Without the row nobody knows, so nothing is stored that such a one would not understand.
create function :"schema".gd_works_from() returns int
language sql stable
begin atomic
  select case when count(*) = 1 then min(s.works_from)
    else cast(:"schema".gd_refuse('55000', 'gen_durable_schema: expected one row, got ' || count(*)
      || ': gdctl migrate status tells what to do') as int) end
  from :"schema".gen_durable_schema s;
end;

create or replace function :"schema".gd_keeps_history() returns boolean
language sql stable
begin atomic
  select :"schema".gd_works_from() >= 11;
end;

create or replace function :"schema".gd_deletes() returns boolean
language sql stable
begin atomic
  select :"schema".gd_works_from() >= 24;
end;

create or replace function :"schema".gd_also_awaited(names jsonb) returns text[]
language sql
begin atomic
  select case
    when :"schema".gd_works_from() >= 18
    then array(select n.name from jsonb_array_elements_text(gd_also_awaited.names) with ordinality as n (name, i) order by n.i)
    else cast(cast(:"schema".gd_refuse('22023',
      'await of several names: expected a schema that is activated (gdctl migrate activate); older libraries, which would not '
      || 'wake the instance, may work with this one') as text) as text[]) end;
end;

select :"schema".gd_change('gd_pause',
  $$substring(pg_catalog.obj_description(cast('gen_durable' as regclass), 'pg_class') from '[0-9]+$')::int < 22$$,
  'gd_works_from() < 22');

-- A table's own row type has the columns that somebody adds to it, and these have not: so what they return is said, column by column.
drop function :"schema".gd_history(bigint, bigint, int, boolean, text, bytea);
drop function :"schema".gd_history_id(bigint, bigint, int, boolean);

create function :"schema".gd_history_id(
  instance bigint, from_seq bigint default null, most int default 100, newest_first boolean default false)
returns table (
  instance_id bigint, seq bigint, at timestamptz, fsm_version int, outcome text, from_step text, to_step text, attempt int,
  token text, by text, wake_reason text, reason text, metadata jsonb, state jsonb)
language sql stable
begin atomic
  select l.instance_id, l.seq, l.at, l.fsm_version, l.outcome, l.from_step, l.to_step, l.attempt, l.token, l.by, l.wake_reason,
    l.reason, l.metadata, l.state
  from (
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = gd_history_id.instance and not gd_history_id.newest_first
        and e.seq >= coalesce(gd_history_id.from_seq, 0)
      order by e.seq
      limit least(greatest(gd_history_id.most, 1), 10000)
    )
    union all
    (
      select e.*
      from :"schema".gen_durable_ledger e
      where e.instance_id = gd_history_id.instance and gd_history_id.newest_first
        and e.seq <= coalesce(gd_history_id.from_seq, 9223372036854775807)
      order by e.seq desc
      limit least(greatest(gd_history_id.most, 1), 10000)
    )) l
  order by case when gd_history_id.newest_first then -l.seq else l.seq end;
end;

create function :"schema".gd_history(
  instance bigint default null, from_seq bigint default null, most int default 100, newest_first boolean default false,
  key text default null, key_bytes bytea default null)
returns table (
  instance_id bigint, seq bigint, at timestamptz, fsm_version int, outcome text, from_step text, to_step text, attempt int,
  token text, by text, wake_reason text, reason text, metadata jsonb, state jsonb)
language sql stable
begin atomic
  select l.*
  from (select :"schema".gd_address('instance', gd_history.instance, gd_history.key, gd_history.key_bytes) as key offset 0) a
  cross join lateral :"schema".gd_history_id(
    case when a.key is null then gd_history.instance
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end,
    gd_history.from_seq, gd_history.most, gd_history.newest_first) l;
end;

-- A standby has no session of any node: who has been heard of within its lease lives, as far as it can be seen there.
select :"schema".gd_change('gd_why', $$hashtext('gen_durable node'::text))::bigint & '4294967295'::bigint)))$$,
  $$hashtext('gen_durable node'::text))::bigint & '4294967295'::bigint)))
          union all
          select hashtext(h.incarnation)::bigint & 4294967295
          from gen_durable_nodes h
          where pg_is_in_recovery()
            and h.seen_at >= clock_timestamp() - least(greatest(h.lease, interval '0'), interval '1000 years')$$);

-- Where row security hides rows from whoever calls, an error in the place of an answer that is as if they were not there.
alter function :"schema".gd_insert set row_security = off;
alter function :"schema".gd_signal set row_security = off;
alter function :"schema".gd_transition set row_security = off;
alter function :"schema".gd_rewind set row_security = off;
alter function :"schema".gd_fork set row_security = off;
alter function :"schema".gd_operate set row_security = off;
alter function :"schema".gd_pause set row_security = off;
alter function :"schema".gd_resume set row_security = off;
alter function :"schema".gd_begin_job set row_security = off;
alter function :"schema".gd_work_on_job set row_security = off;
alter function :"schema".gd_cancel_job set row_security = off;
alter function :"schema".gd_status set row_security = off;
alter function :"schema".gd_why set row_security = off;
alter function :"schema".gd_in_step set row_security = off;
alter function :"schema".gd_history set row_security = off;
