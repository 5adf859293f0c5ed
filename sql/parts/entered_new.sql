-- The entries of insert_new_ledger and insert_ledger.
  returning g.id, g.wake_reason,
-- include parts/entered.sql
)
-- include parts/enter.sql
from (
  select m.*, 'insert' as outcome, null as from_step, null as token, null as reason, null::jsonb as metadata
  from made m
  where m.history > 0) a
-- include parts/entered_again.sql
