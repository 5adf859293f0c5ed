-- Behind the last migration of a run: what the schema is now. $1 int its version, $2 int the oldest library that works with it.
update :"schema".gen_durable_schema set version = $1::int, works_from = $2::int
