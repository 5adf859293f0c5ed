-- Turns the locks of the rows in gd.kept into locks of the session, which last until unlock_keys. The last thing before
-- the commit: a rollback would not undo it.
-- A row for each: id, whether it is held (it is: the transaction has the lock), and the session that holds it.
select g.id, pg_try_advisory_lock(hashtext(g.partition_key)) as held, current_setting('gd.session', true) as session
from :"schema".gen_durable g
where g.id = any(current_setting('gd.kept')::bigint[])
