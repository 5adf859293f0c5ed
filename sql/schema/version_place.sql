-- Where the schema's version is: before migration 27 it was in a comment.
-- No row: the schema has neither table. kept: it has that of the version; comment: of gen_durable, or null.
select bool_or(c.relname = 'gen_durable_schema') as kept,
  max(obj_description(c.oid, 'pg_class')) filter (where c.relname = 'gen_durable') as comment
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = :'schema' and c.relname in ('gen_durable', 'gen_durable_schema') and c.relkind in ('r', 'p')
having count(*) > 0
