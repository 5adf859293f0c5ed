-- Takes suspects, in pick order, as pick takes other rows: as many as may run at once (see isolation.hpp), each if no more
-- are taken with it than may be beside one with so many crashes. Of those with a partition key, the first row of a key
-- of which none executes; lock_keys, check_keys and hold_keys follow.
-- For the statuses behind a select see pick_keyed.
-- $1 to $7 as in pick. $8 int[] how many may be taken with and before one of two crashes, of three, and so on; the last: of
-- as many, or more. $9 text[] keys to leave alone.
-- Returns what pick_keyed returns, and in the summary nothing but now_us2000 and claimed.
with machine as materialized (
  select m.fsm, m.version from unnest($6::text[], $7::int[]) as m (fsm, version)
), locked as materialized (
  select c.*
  from machine m
  cross join lateral (
    select g.id, g.ctid as tuple, g.priority, g.eligible_at, g.crashes
-- include parts/suspect_rows.sql
      and g.eligible_at <= statement_timestamp()
      and (g.partition_key is null or g.partition_key not in (select unnest($9::text[])) and g.id = (
        select h.id
        from (select g.partition_key) k
        cross join lateral (
-- include parts/key_levels.sql
          select f.id
          from level l
          cross join lateral (
            select o.id
            from :"schema".gen_durable o
            where o.partition_key = k.partition_key and o.status in ('runnable', 'executing')
              and o.status = (select cast('runnable' as :"schema".durable_status)) and o.priority = l.priority
              and o.eligible_at <= statement_timestamp()
            order by o.eligible_at, o.id
            limit 1
          ) f
          limit 1
        ) h
        where (
          select o.id from :"schema".gen_durable o
          where o.partition_key = k.partition_key and o.status in ('runnable', 'executing')
            and o.status = (select cast('executing' as :"schema".durable_status))
          limit 1) is null))
    order by g.priority, g.eligible_at, g.id
    limit $5::int
    for no key update skip locked
  ) c
), claimed as materialized (
  select n.tuple
  from (
    select l.*, row_number() over (order by l.priority, l.eligible_at, l.id) as nth
    from locked l) n
  where n.nth <= $5::int
    and n.nth <= ($8::int[])[least(n.crashes - 1, cardinality($8::int[]))]
),
-- include parts/pick_rows.sql
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, json_build_object(
-- include parts/claimed_now.sql
)::text
-- include parts/hand_on_keyed.sql
