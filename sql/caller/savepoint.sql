-- What follows can be undone without the transaction of the caller, whose it is.
savepoint gen_durable
