-- Picks rows that candidates has told, as pick_keyed would; lock_keys, check_keys and hold_keys follow. No row: somebody
-- else has it, or has locked it.
-- For the status behind a select see pick_keyed.
-- $1 to $3 as in pick, $4 bigint[] id. Returns what pick_keyed returns, and in the summary nothing but now_us2000 and claimed.
with claimed as materialized (
  select g.ctid as tuple
  from :"schema".gen_durable g
  where g.id = any($4::bigint[]) and g.status = (select cast('runnable' as :"schema".durable_status))
    and g.eligible_at <= statement_timestamp()
  order by g.id + 0
  for no key update skip locked
),
-- include parts/pick_rows.sql
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, json_build_object(
-- include parts/claimed_now.sql
)::text
-- include parts/hand_on_keyed.sql
