-- Locks the targets of signals, of which some are named by the unique key that they have now: _gd_hold_all
-- (schema/017_keys.up.sql) says how. Leaves out those that a stranger holds, or waits for them. Hands the list of those on inside
-- the transaction as gd.locked, and whom each signal names as gd.targets. Ids of signals are drawn behind it.
-- $1 bigint[] id, or null, $2 bytea[] unique key, or null, $3 bool whether to wait
select set_config('gd.targets', h.targets::text, true), set_config('gd.locked', h.locked::text, true)
from :"schema"._gd_follow_timeline(), :"schema"._gd_hold_all($1::bigint[], $2::bytea[], $3::bool) h
