-- The range of p, a machine that has rows, on the level l.
cross join lateral (
  select p.fsm, p.version, l.priority,
    case when l.priority = p.priority then p.eligible_at else coalesce(l.since, '-infinity') end as since,
    case when l.priority = p.priority then p.id else coalesce(l.id, -9223372036854775808) end as id
) r
