-- For whoever is trusted with little: four functions in a schema of their own, and no right to the library's schema and tables.
-- They run with the rights of the tables' owner, and find names in the library's schema alone, where nobody else may create
-- anything. Nothing depends on them and they call by name, so migrations go past them. What each answer tells, the guide says:
-- there are neither steps to begin at, states to write, nor others' ids and steps in what is refused. Run it once for each role,
-- as the tables' owner or as a superuser, and leave out what the role does not need.
-- psql -v schema=public -v api=durable -v role=app -f functions.sql
begin;
select :"schema"._gd_refuse('22023', 'api: expected another schema than that of the tables') where :'api' = :'schema';
revoke create on schema :"schema" from public;
select set_config('role', pg_get_userbyid(t.relowner), true)
from pg_class t
where t.oid = cast(quote_ident(:'schema') || '.gen_durable' as regclass);
create schema if not exists :"api";

-- At the first step of the version that is chosen for all, in its queue, and behind nobody's back: no priority, no time that has
-- passed already.
create or replace function :"api".gd_insert(
  fsm text, state jsonb default '{}', delay interval default null, partition_key text default null,
  unique_key text default null, unique_scope text[] default null, out id bigint, out duplicate boolean)
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  select r.id, r.duplicate
  into gd_insert.id, gd_insert.duplicate
  from gd_insert(
    fsm => gd_insert.fsm, state => gd_insert.state, delay => gd_insert.delay, partition_key => gd_insert.partition_key,
    unique_key => gd_insert.unique_key, unique_scope => gd_insert.unique_scope) r;
exception
  when sqlstate 'MV005' then
    raise exception 'unique_key: an instance of another machine has it' using errcode = 'MV005';
  when sqlstate '55000' then
    raise exception 'id: new instances would get ids that others have: the tables'' owner has to run gdctl check' using errcode = '55000';
end
$$;

create or replace function :"api".gd_signal(
  target bigint default null, name text default null, payload jsonb default '{}', dedup_key text default null,
  key text default null, key_bytes bytea default null) returns text
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  return gd_signal(
    target => gd_signal.target, name => gd_signal.name, payload => gd_signal.payload, dedup_key => gd_signal.dedup_key,
    key => gd_signal.key, key_bytes => gd_signal.key_bytes);
end
$$;

-- Its entry in the history names who has logged in.
create or replace function :"api".gd_transition(
  target bigint default null, to_step text default null, from_step text default null, seq bigint default null,
  metadata jsonb default null, reason text default null, key text default null, key_bytes bytea default null) returns bigint
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  return gd_transition(
    target => gd_transition.target, to_step => gd_transition.to_step, from_step => gd_transition.from_step,
    seq => gd_transition.seq, metadata => gd_transition.metadata, reason => gd_transition.reason,
    by => cast(session_user as text), key => gd_transition.key, key_bytes => gd_transition.key_bytes);
exception
  when sqlstate 'MV003' then
    raise exception 'target: it executes, is finished, or is not where from_step and seq say' using errcode = 'MV003';
  when sqlstate 'MV004' then
    raise exception 'to: nobody outside may move it there from its step' using errcode = 'MV004';
  when sqlstate 'MV006' then
    raise exception 'unique_key: another instance has it' using errcode = 'MV006';
  when undefined_object then
    raise exception 'from, to: its machine has no such step' using errcode = '42704';
end
$$;

-- Of the instance that has a key now, no more than this; none: nobody has it.
create or replace function :"api".gd_status(
  key text default null, key_bytes bytea default null, out status text, out step text) returns setof record
language sql stable security definer
set search_path = :"schema", pg_temp
set row_security = off
as $$
  select g.status::text, g.step
  from gen_durable g
  where g.unique_guard = _gd_address('target', null, gd_status.key, gd_status.key_bytes);
$$;

revoke execute on function :"api".gd_insert, :"api".gd_signal, :"api".gd_transition, :"api".gd_status from public;
grant usage on schema :"api" to :"role";
grant execute on function :"api".gd_insert, :"api".gd_signal, :"api".gd_transition, :"api".gd_status to :"role";
commit;
