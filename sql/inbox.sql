-- The inboxes of rows that go on at once, behind advance: a statement of its own, so that what has been consumed is out.
-- A row for each that has signals; bounds as in pick.
-- $1 bigint[] id, $2 int signals of an inbox at the most
select a.target_id as id, inbox.ids, inbox.names, inbox.payloads
from (
  select distinct s.target_id
  from :"schema".signals s
  where s.target_id = any($1::bigint[]) and s.consumed_at is null
) a
cross join lateral (
  select array_agg(s.id) as ids, array_agg(s.name) as names, array_agg(s.payload::text) as payloads
  from (
    select s.id, s.name, s.payload,
      sum(octet_length(s.payload::text)) over (order by s.id rows between unbounded preceding and 1 preceding) as before
    from (select * from :"schema".signals s where s.target_id = a.target_id and s.consumed_at is null offset 0) s
    order by s.id
    limit $2::int
  ) s
  where s.before is null or s.before < 8388608
) inbox
