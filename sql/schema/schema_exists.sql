-- One row: whether the schema is there.
select exists (select from pg_catalog.pg_namespace where nspname = :'schema') as found
