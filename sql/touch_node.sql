-- Says that a node lives. By itself, behind lock_timeout: the leases do not depend on it. No row: it is not known (any more).
-- $1 text incarnation
update :"schema".gen_durable_nodes n
set seen_at = clock_timestamp()
where n.incarnation = $1::text
returning n.incarnation
