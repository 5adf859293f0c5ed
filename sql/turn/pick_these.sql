-- Picks rows that candidates or suspect_candidates has told, as pick_keyed would; lock_keys, check_keys and hold_keys follow.
-- No row: somebody else has it, or has locked it; or it has become a suspect, or ceased to be one; or, of suspects, no more
-- may be taken now.
-- For the status behind a select see pick_keyed.
-- $1 to $3 as in pick, $4 bigint[] id. $5 int[] of suspects, how many may be taken, as $8 of pick_suspects; of others empty.
-- Returns what pick_keyed returns, and leaves what it does.
with locked as materialized (
  select g.id, g.ctid as tuple, g.fsm, g.fsm_version, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes
  from :"schema".gen_durable g
  where g.id = any($4::bigint[]) and g.status = (select cast('runnable' as :"schema".gen_durable_status))
    and g.eligible_at <= statement_timestamp()
    and (g.crashes >= 2) = (cardinality($5::int[]) > 0)
  order by g.id + 0
  for no key update skip locked
), claimed as materialized (
  select d.due, g.tuple
  from (
    select l.*, row_number() over (order by l.priority, l.eligible_at, l.id) as nth
    from locked l) g
  cross join lateral
-- include parts/places.sql
  d
  where coalesce(g.nth <= ($5::int[])[least(g.crashes - 1, cardinality($5::int[]))], true)
),
-- include parts/taken.sql
-- include parts/kept.sql
-- include parts/pick_rows.sql
where (select set_config('gd.picked', json_build_object(
-- include parts/claimed_now.sql
)::text, true)) is not null
-- include parts/hand_on_keyed.sql
