-- Takes the lock that says that this node lives, for the session: whoever cannot get it knows that at once, and who can
-- knows that the node's control connection is gone. Two integers: no partition key's lock is one of these.
-- Waits for an older session of the same node, which end_older_session has asked to end. $1 text incarnation
select pg_advisory_lock(hashtext('gen_durable node'), hashtext($1::text))
