-- Takes a lease on the most urgent eligible rows of a queue, and returns them with their inbox.
-- It reads as much as it takes, whatever lies in the table: the rows of each machine that this node knows are
-- a range of their own, and of that each priority, so that neither foreign rows nor future ones are ever passed over.
-- The recursive part finds the priorities in use, each by one probe; the outer limit ends it as soon as it has enough.
-- If one machine has all the rows, they are claimed as they are read: its ranges are the pick order, and what strangers
-- have locked is passed over. Those of several are merged first, as deep as $11 says, without a lock: that tells how many of
-- each are next, and so many of each are claimed as they are read. If that is less than is wanted (a machine has no more that
-- strangers have not locked), the next pick is to look deeper.
-- What is claimed, in gen_durable_due and its instance, is found again by its place (ctid); a row that a stranger has moved since
-- the snapshot is left for the next pick. The claim is "for no key update": "for update" would skip rows that a signal's foreign key check locks.
-- Rows with a partition key are not taken: pick_keyed is for queues that have some.
-- $1 text lease token, $2 int signals of an inbox at the most, $3 bigint lease in us, $4 text queue, $5 int limit,
-- $6 text[] fsm, $7 int[] version of the machines that this node knows.
-- $8 int[] priority, $9 bigint[] since, in us since 2000, $10 bigint[] id: of these priorities, only rows from there on, by
-- the time of their eligibility and then by id, are looked at; the first is -32768. What was worked off before that, and
-- what strangers had locked, is not passed over again (see turn.hpp). $11 int how many rows are merged.
-- A row without state: it is not shown, see show.
-- What it tells of itself is left for pick_summary.
with recursive
-- include parts/pick_free.sql
share as materialized (
  select f.priority, f.fsm, f.version, count(*) as rows, min(f.eligible_at) as since,
    (array_agg(f.id order by f.eligible_at, f.id))[1] as id
  from free f
  where (select count(*) from present) > 1
  group by f.priority, f.fsm, f.version
), claimed as materialized (
  (
    select c.due, c.tuple
    from level l
    cross join present p
-- include parts/range_of.sql
    cross join lateral (
      select g.ctid as due, i.ctid as tuple
      from :"schema".gen_durable_due g
-- include parts/claim_row.sql
-- include parts/range.sql
      order by g.eligible_at, g.id
      limit $5::int
      for no key update of i, g skip locked
    ) c
    where l.priority is not null and (select count(*) from present) = 1
    limit $5::int
  )
  union all
  (
    select c.due, c.tuple
    from (select s.* from share s order by s.priority, s.since, s.id) r
    cross join lateral (
      select g.ctid as due, i.ctid as tuple
      from :"schema".gen_durable_due g
-- include parts/claim_row.sql
-- include parts/range.sql
      order by g.eligible_at, g.id
      limit r.rows
      for no key update of i, g skip locked
    ) c
    limit $5::int
  )
),
-- include parts/taken.sql
-- include parts/pick_rows.sql
where (select set_config('gd.picked', json_build_object(
  'keyed_rows', (
    select count(*) > 0
    from (
      select
      from machine m
      cross join lateral (
        select g.priority
-- include parts/keyed_rows.sql
        order by g.priority
        limit 1
      ) x
      limit 1
    ) keyed
  ),
  'deeper', (select count(*) from present) > 1 and (select count(*) from free) = $11::int,
-- include parts/claimed_now.sql
  ,
-- include parts/next_due.sql
  , 'suspects',
-- include parts/any_suspects.sql
)::text, true)) is not null
