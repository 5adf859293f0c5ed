-- Tries the locks of the partition keys of the rows in gd.keyed, for this transaction, and hands the ids that won on as
-- gd.won. The lock is the arbiter of two picks that do not see each other.
select set_config('gd.won', coalesce(array_agg(x.id) filter (where x.won), '{}')::text, true)
from (
  select g.id, pg_try_advisory_xact_lock(hashtext(g.partition_key)) as won
  from :"schema".gen_durable g
  where g.id = any(current_setting('gd.keyed')::bigint[])
) x
