-- Which of these ids are there: the answer to an insert, in a statement (and so a snapshot) of its own.
-- $1 bigint[] id. An id without a row was not inserted.
select g.id from :"schema".gen_durable g where g.id = any($1::bigint[])
