-- Rows whose lease is over, or will be soon, and that a stranger has locked: their node lives, for all that is known, and
-- cannot extend them. Run before reap, which leaves them out until their node has had time to (spec [A7]).
-- $1 int limit, $2 bigint how soon, in us
with ending as materialized (
  select g.id
  from :"schema".gen_durable g
  where g.status = 'executing'
    and g.lease_expires_at < statement_timestamp() + $2::bigint * interval '1 microsecond'
  order by g.lease_expires_at
  limit $1::int
), free as materialized (
  select g.id
  from :"schema".gen_durable g
  where g.id = any(array(select e.id from ending e))
  for no key update skip locked
)
select e.id
from ending e
where e.id not in (select f.id from free f)
