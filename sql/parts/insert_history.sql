-- Of insert_new_ledger and insert_ledger: the rows, with the history that they are to have.
  insert into :"schema".gen_durable as g (
-- include parts/new_columns.sql
    , history, ledger_step)
  overriding system value
  select r.*, h.history, case when h.history > 0 then r.step end
  from (
-- include parts/new_rows.sql
  ) r
  cross join lateral (
    select cast(case when r.id in (select unnest($18::bigint[]) where :"schema".gd_keeps_history()) then 2
                     when r.id in (select unnest($17::bigint[]) where :"schema".gd_keeps_history()) then 1
                     else 0 end as smallint) as history) h
  order by r.unique_key, r.id
