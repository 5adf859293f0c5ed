-- One row: whether rows from before the checks of executing and awaiting ones are still to be looked at.
select exists (
  select
  from pg_constraint c
  join pg_namespace n on n.oid = c.connamespace
  where n.nspname = :'schema' and c.conname in ('gen_durable_executing', 'gen_durable_awaiting') and not c.convalidated)
  as found
