-- Leaves a failed transaction, before anything else is sent on the connection.
rollback
