-- Whether l, a row of pg_locks, is the lock of a node that lives: two integers, which no partition key's lock is.
l.locktype = 'advisory' and l.granted and l.objsubid = 2
and l.database = (select d.oid from pg_database d where d.datname = current_database())
and l.classid::bigint = hashtext('gen_durable node')::bigint & 4294967295
