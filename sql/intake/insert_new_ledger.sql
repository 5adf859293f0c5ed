-- What insert_new does, for a group in which rows are to have history, and their entries; or rest, or end, where they begin.
-- $1 to $17 as in insert_new. $18 bigint[] ids of rows with history, $19 bigint[] of those with states in it. The steps of
-- these rows in which none runs, each once: $20 text[] fsm, $21 int[] version, $22 text[] step, $23 text[] the status there,
-- $24 bigint[] how long they rest at the most, in us, or null.
with made as (
-- include parts/insert_history.sql
-- include parts/entered_new.sql
