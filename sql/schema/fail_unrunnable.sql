-- Fails the rows that nobody could ever run, which the checks do not let in any more: executing without a lease, waiting for a
-- signal without a name, unfinished with a state that is no object. One that would get into a unique key's scope by that, where
-- another is already, lets go of its key's scope.
-- A row for each: its id, and why.
with fault as materialized (
  select g.id, case
      when g.status = 'executing' and (g.locked_by is null or g.lease_expires_at is null)
      then 'it executed without a lease token, or without an end of its lease'
      when g.status = 'awaiting_signal' and g.awaits is null then 'it waited for a signal without a name'
      when g.status not in ('done', 'failed') and jsonb_typeof(g.state) <> 'object' then 'its state is no object' end as why
  from :"schema".gen_durable g
  where g.status = 'executing' and (g.locked_by is null or g.lease_expires_at is null)
     or g.status = 'awaiting_signal' and g.awaits is null
     or g.status not in ('done', 'failed') and jsonb_typeof(g.state) <> 'object'
  for no key update
)
update :"schema".gen_durable g
set status = 'failed', seq = g.seq + 1, last_error = 'nobody could ever run it: ' || f.why, awaits = null, awaits_also = null, deadline = null, locked_by = null,
    lease_expires_at = null, updated_at = clock_timestamp(),
    unique_scope = case when exists (select from :"schema".gen_durable o where o.unique_guard = g.unique_key and o.id <> g.id)
                        then '{}' else g.unique_scope end
from fault f
where g.id = f.id
returning g.id, f.why
