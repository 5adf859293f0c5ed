-- Takes suspects, in pick order, as pick takes other rows: as many as may run at once (see isolation.hpp), each if no more
-- are taken with it than may be beside one with so many crashes. Of those with a partition key, the first row of a key
-- of which none executes; lock_keys, check_keys and hold_keys follow.
-- For the statuses behind a select see pick_keyed.
-- $1 to $7 as in pick. $8 int[] how many may be taken with and before one of two crashes, of three, and so on; the last: of
-- as many, or more. $9 text[] keys to leave alone; $10 bigint[] ids of rows to leave alone.
-- Returns what pick_keyed returns, and leaves what it does.
with
-- include parts/claim_suspects.sql
-- include parts/taken.sql
-- include parts/kept.sql
-- include parts/pick_rows.sql
where (select set_config('gd.picked', json_build_object(
-- include parts/claimed_now.sql
)::text, true)) is not null
-- include parts/hand_on_keyed.sql
