-- The queues that operators have paused, for nodes that do not look. One row: their names.
select
-- include parts/paused.sql
