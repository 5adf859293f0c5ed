-- Undoes a unit that has failed, in a transaction that is somebody else's.
rollback to savepoint gen_durable
