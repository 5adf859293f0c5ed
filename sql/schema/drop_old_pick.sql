-- Drops the index by which only libraries pick that do not know the newest version. Waits for all who use the
-- table, and whoever comes after waits behind it: behind lock_timeout, where there are instances.
drop index if exists :"schema".gen_durable_pick
