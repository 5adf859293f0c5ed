-- The inboxes of rows that go on at once, behind advance: a statement of its own, so that what has been consumed is out.
-- A row for each that has signals: its id, and its signals, or null if they are long or compressed: show asks for them. If
-- there are very many, a row for each, and null.
-- $1 bigint[] id, $2 int signals of an inbox at the most
with picked as materialized (
  select unnest($1::bigint[]) as id
), addressed as materialized (
-- include parts/addressed.sql
)
select p.target_id as id, inbox.ids, inbox.names, inbox.payloads, inbox.traces
from (select a.target_id, a.target_id as id from addressed a where a.short) p
left join lateral (
-- include parts/inbox.sql
) inbox on true
where (select coalesce(sum(a.n), 0) < 10000 from addressed a)
union all
select a.target_id, null, null, null, null
from addressed a
where not a.short and (select coalesce(sum(a.n), 0) < 10000 from addressed a)
union all
select p.id, null, null, null, null
from picked p
where (select sum(a.n) >= 10000 from addressed a)
