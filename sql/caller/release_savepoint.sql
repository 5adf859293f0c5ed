-- Forgets the savepoint; what came behind it is the transaction's.
release savepoint gen_durable
