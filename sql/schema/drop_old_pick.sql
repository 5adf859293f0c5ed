-- Drops the index by which only libraries pick that do not know the newest version. Waits for all who use the table.
drop index if exists :"schema".gen_durable_pick
