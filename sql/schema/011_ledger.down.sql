-- The history goes, and so does the count.
drop function :"schema".gd_in_step(text, text, text, bigint, int);
drop function :"schema".gd_history(bigint, bigint, int, boolean);

create or replace function :"schema".gd_insert_row(
  id bigint, fsm text, version int, step text, state jsonb, queue text, priority smallint, eligible_at timestamptz,
  partition_key text, unique_key bytea, unique_scope :"schema".durable_status[],
  out instance bigint, out duplicate boolean)
language sql
begin atomic
  insert into :"schema".gen_durable (id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key,
    unique_key, unique_scope)
  overriding system value
  values (gd_insert_row.id, gd_insert_row.fsm, gd_insert_row.version, gd_insert_row.step, gd_insert_row.state,
    gd_insert_row.queue, gd_insert_row.priority, gd_insert_row.eligible_at, gd_insert_row.partition_key,
    gd_insert_row.unique_key, gd_insert_row.unique_scope)
  on conflict do nothing;

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

drop function :"schema".gd_enter_insert(bigint, timestamptz, int, text, jsonb);
drop function :"schema".gd_keeps_history();

drop view :"schema".gen_durable_transitions;
drop table :"schema".gen_durable_ledger;

alter table :"schema".gen_durable_machines drop column history_keep, drop column history;
drop index :"schema".gen_durable_ledger_step;
alter table :"schema".gen_durable drop column ledger_step, drop column history, drop column seq;

comment on table :"schema".gen_durable is 'gen_durable schema 10, works with libraries from 3';
