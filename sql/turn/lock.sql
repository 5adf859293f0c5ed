-- Waits for the locks of rows, in id order, for as long as the lock timeout lets it. For rows that "skip locked"
-- has found locked again and again, each tried alone; never in a group.
-- $1 bigint[] id. A missing row: it is deleted.
select g.id from :"schema".gen_durable g where g.id = any($1::bigint[]) order by g.id for no key update
