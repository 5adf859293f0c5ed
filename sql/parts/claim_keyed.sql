-- Of those that pick rows with partition keys, behind pick_free and pick_keys: claims the first rows of both kinds. As in
-- pick, the first half of what was looked at tells how many of each kind, and of each machine, are next; so many are claimed
-- as they are read, and so many keys among all that were found: what strangers have locked, or is to be left out, is passed over.
candidate as materialized (
  select f.id, f.priority, f.eligible_at, f.fsm, f.version from free f
  union all
  select h.id, h.priority, h.eligible_at, null, null from head h
  order by priority, eligible_at, id
  limit $11::int / 2
), share as materialized (
  select c.priority, c.fsm, c.version, count(*) as rows, min(c.eligible_at) as since,
    (array_agg(c.id order by c.eligible_at, c.id))[1] as id
  from candidate c
  group by c.priority, c.fsm, c.version
), shared as materialized (
  select c.*
  from (select s.* from share s where s.fsm is not null order by s.priority, s.since, s.id) r
  cross join lateral (
    select g.id, g.ctid as due, i.ctid as tuple, g.priority, g.eligible_at
    from :"schema".gen_durable_due g
-- include parts/claim_row.sql
-- include parts/range.sql
      and g.id not in (select unnest($15::bigint[]))
    order by g.eligible_at, g.id
    limit r.rows
    for no key update of i, g skip locked
  ) c
  limit $5::int
), led as materialized (
  select g.id, g.ctid as due, i.ctid as tuple, g.priority, g.eligible_at
  from :"schema".gen_durable_due g
-- include parts/claim_row.sql
  where g.ctid = any(array(select h.due from head h))
    and not g.executes and g.eligible_at <= statement_timestamp()
    and g.id not in (select unnest($15::bigint[]))
  order by g.priority, g.eligible_at, g.id
  limit least((select coalesce(sum(s.rows), 0) from share s where s.fsm is null), $5::int - (select count(*) from shared))
  for no key update of i, g skip locked
), claimed as (
  select s.* from shared s union all select l.* from led l
),
