-- Of insert_new_ledger and insert_ledger: the rows, with the history that they are to have, and, where none runs in their
-- step, as they arrive there.
  insert into :"schema".gen_durable as g (
-- include parts/new_columns.sql
    , history, ledger_step, status, awaits, deadline, result)
  overriding system value
  select r.*, h.history, case when h.history > 0 then r.step end, coalesce(a.status, 'runnable'),
    case when a.status = 'awaiting_signal' then '' end, clock_timestamp() + a.after_us * interval '1 microsecond',
    case when a.status = 'done' then jsonb '{}' end
  from (
-- include parts/new_rows.sql
  ) r
  cross join lateral (
    select cast(case when r.id in (select unnest($19::bigint[])) then 2
                     when r.id in (select unnest($18::bigint[])) then 1
                     else 0 end as smallint) as history) h
  left join lateral (
    select cast(s.status as :"schema".durable_status) as status, s.after_us
    from unnest($20::text[], $21::int[], $22::text[], $23::text[], $24::bigint[])
      as s (fsm, version, step, status, after_us)
    where s.fsm = r.fsm and s.version = r.version and s.step = r.step
    limit 1) a on true
  order by r.unique_key, r.id
