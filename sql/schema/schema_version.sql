-- Reads the installed schema's version.
-- No row: there is no table gen_durable in the schema. A row with null: the table is not ours, or was made without a version.
select obj_description(c.oid, 'pg_class') as version
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = :'schema' and c.relname = 'gen_durable' and c.relkind in ('r', 'p')
