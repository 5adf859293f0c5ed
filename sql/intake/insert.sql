-- Inserts instances under ids drawn beforehand; sent again, it does nothing. In the order of unique keys, or two nodes
-- that insert the same ones deadlock on the index. Rows with a unique key may wait for a stranger's insert:
-- they go in a group of their own, behind lock_timeout. What became of each, `inserted` tells.
-- Parameters as those of insert_new.
-- include parts/insert_rows.sql
order by e.unique_key, e.id
on conflict do nothing
