-- What insert does, for such groups as insert_new_ledger is for.
-- Parameters as those of insert_new_ledger.
with made as (
-- include parts/insert_history.sql
  on conflict do nothing
-- include parts/entered_new.sql
