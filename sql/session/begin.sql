-- Opens every transaction of the engine. READ COMMITTED whatever the database's default: parking and
-- signalling rely on a new snapshot per statement.
begin isolation level read committed read write
