-- What insert does, for a group in which rows are to have history, and their entries.
-- Parameters as those of insert_new_ledger.
with made as (
-- include parts/insert_history.sql
  on conflict do nothing
-- include parts/entered_new.sql
