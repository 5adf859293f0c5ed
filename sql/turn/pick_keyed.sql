-- Picks from a queue that has rows with a partition key, too; lock_keys, check_keys and hold_keys follow. See pick.
-- Of each partition key only the first eligible row counts, and only if no row of the key executes. Keys are
-- found by walking the keyed rows in pick order, as deep as $11 says. If a backlog of a few keys fills that walk, as many
-- distinct keys are visited from where the last visit ended, and if what strangers have locked fills it, those only: keys
-- then take turns, and only among keys is the order no longer exact.
-- A status behind a select is not known to the planner: it could otherwise, while the table is small, decide to read all
-- of an index that holds only rows of that status, instead of the key's rows in gen_durable_due_key.
-- $1 to $10 as in pick; $11 int how many rows are looked at, twice as many as are merged; $12 text[] keys to leave alone,
-- $13 text the key that the last visit ended with, $14 bool whether keys are to be visited instead if the walk is full;
-- $15 bigint[] ids of rows to leave alone, as if strangers had locked them.
-- What it tells of itself is left for pick_summary, and the ids of picked rows with a key for lock_keys.
with recursive
-- include parts/pick_free.sql
-- include parts/pick_keys.sql
-- include parts/claim_keyed.sql
-- include parts/taken.sql
-- include parts/kept.sql
-- include parts/pick_rows.sql
where (select set_config('gd.picked', json_build_object(
  'keyed_rows', (select count(l.priority) > 0 from (select * from keyed_level limit 1) l),
  'deeper', (select count(*) from claimed) < least($5::int, $11::int)
    and ((select count(*) from candidate) = $11::int / 2
         or (select count(*) from walk) = $11::int
            and coalesce((select max(v.n) from visited v), $11::int) = $11::int),
  'last_key', coalesce((select v.partition_key from visited v order by v.n desc limit 1), $13::text, ''),
-- include parts/claimed_now.sql
  ,
-- include parts/next_due.sql
  , 'suspects',
-- include parts/any_suspects.sql
)::text, true)) is not null
-- include parts/hand_on_keyed.sql
