-- Where the schema's version is.
-- No row: the schema has neither table. kept: it has that of the version; else it has a gen_durable that is not ours.
select bool_or(c.relname = 'gen_durable_schema') as kept
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = :'schema' and c.relname in ('gen_durable', 'gen_durable_schema') and c.relkind in ('r', 'p')
having count(*) > 0
