alter function :"schema".gd_in_step reset row_security;
alter function :"schema".gd_why reset row_security;
alter function :"schema".gd_status reset row_security;
alter function :"schema".gd_cancel_job reset row_security;
alter function :"schema".gd_work_on_job reset row_security;
alter function :"schema".gd_begin_job reset row_security;
alter function :"schema".gd_resume reset row_security;
alter function :"schema".gd_pause reset row_security;
alter function :"schema".gd_operate reset row_security;
alter function :"schema".gd_fork reset row_security;
alter function :"schema".gd_rewind reset row_security;
alter function :"schema".gd_transition reset row_security;
alter function :"schema".gd_signal reset row_security;
alter function :"schema".gd_insert reset row_security;

-- What gd_change cannot name: PostgreSQL gives names of its own to what it stores of a function.
create function :"schema".gd_change_back() returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  execute pg_catalog.regexp_replace(pg_get_functiondef(pg_catalog.to_regproc('gd_why')),
    '\s+union all\s+select \(*hashtext\(h.*1000 years[^)]*\)*', '', 'i');
end
$$;
select :"schema".gd_change_back();
drop function :"schema".gd_change_back();

drop function :"schema".gd_history(bigint, bigint, int, boolean, text, bytea);
drop function :"schema".gd_history_id(bigint, bigint, int, boolean);

create function :"schema".gd_history_id(
  instance bigint, from_seq bigint default null, most int default 100, newest_first boolean default false)
returns setof :"schema".gen_durable_ledger
language sql stable
begin atomic
  select l.*
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
returns setof :"schema".gen_durable_ledger
language sql stable
begin atomic
  select l.*
  from (select :"schema".gd_address('instance', gd_history.instance, gd_history.key, gd_history.key_bytes) as key offset 0) a
  cross join lateral :"schema".gd_history_id(
    case when a.key is null then gd_history.instance
         else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end,
    gd_history.from_seq, gd_history.most, gd_history.newest_first) l;
end;

select :"schema".gd_change('gd_pause', 'gd_works_from() < 22',
  $$substring(pg_catalog.obj_description(cast('gen_durable' as regclass), 'pg_class') from '[0-9]+$')::int < 22$$);

create or replace function :"schema".gd_also_awaited(names jsonb) returns text[]
language sql
begin atomic
  select case
    when substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class')
                   from '[0-9]+$')::int >= 18
    then array(select n.name from jsonb_array_elements_text(gd_also_awaited.names) with ordinality as n (name, i) order by n.i)
    else cast(cast(:"schema".gd_refuse('22023',
      'await of several names: expected a schema that is activated (gdctl migrate activate); older libraries, which would not '
      || 'wake the instance, may work with this one') as text) as text[]) end;
end;

create or replace function :"schema".gd_deletes() returns boolean
language sql stable
begin atomic
  select substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class')
                   from '[0-9]+$')::int >= 24;
end;

create or replace function :"schema".gd_keeps_history() returns boolean
language sql stable
begin atomic
  select substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class')
                   from '[0-9]+$')::int >= 11;
end;

drop function :"schema".gd_works_from();

create or replace function :"schema".gd_note_version(version int) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  execute format('comment on table gen_durable is %L',
                 regexp_replace(obj_description('gen_durable'::regclass, 'pg_class'), '[0-9]+', version::text));
end
$$;

drop table :"schema".gen_durable_schema;

comment on table :"schema".gen_durable is 'gen_durable schema 26, works with libraries from 3';
