-- Reads the installed schema's version. Fails (42P01) where there is none.
-- A row for each that the table has, or one with nulls. hidden: the library's tables of which row security keeps rows from this
-- role, or null: no version is told then; role: its name.
select s.version, s.works_from, h.hidden, current_user::text as role
from (
  select string_agg(c.relname, ', ' order by c.relname) as hidden
  from pg_catalog.pg_class c
  where c.relrowsecurity and c.relname in ('gen_durable', 'gen_durable_erased', 'gen_durable_jobs', 'gen_durable_ledger',
      'gen_durable_machines', 'gen_durable_nodes', 'gen_durable_queues', 'gen_durable_schema', 'gen_durable_signals')
    and c.relnamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = :'schema')
    and row_security_active(c.oid)) h
left join :"schema".gen_durable_schema s on h.hidden is null
