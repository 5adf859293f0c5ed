-- What insert_new does, for a group in which rows are to have history, and their entries. None has it before the schema is
-- activated.
-- $1 to $16 as in insert_new. $17 bigint[] ids of rows with history, $18 bigint[] of those with states in it.
with made as (
-- include parts/insert_history.sql
-- include parts/entered_new.sql
