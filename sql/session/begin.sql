-- Opens every transaction of the engine. READ COMMITTED whatever the database's default: parking and
-- signalling rely on a new snapshot per statement (spec section 5).
begin isolation level read committed read write
