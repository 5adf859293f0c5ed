-- Nodes that live, and whose library does not know a version of the schema. $1 int version.
-- A row for each: name, host, process, version of the library.
select left(n.node, 255) as node, left(n.host, 255) as host, n.process, left(n.library, 255) as library
from :"schema".gen_durable_nodes n
where coalesce(n.knows, 0) < $1::int and
-- include parts/lives.sql
order by n.node, n.process
