-- Of those that write outcomes, note_trials and heartbeat: locks the row of e, in the order of e, or leaves it out if a stranger holds
-- it. One by one: a join could be planned to read all of an index, while the table is small.
  cross join lateral (
    select g.ctid as tuple, g.status, g.locked_by, g.unique_key, g.unique_scope, g.step, g.wake_reason
    from :"schema".gen_durable g
    where g.id = e.id
    for no key update skip locked
  ) g
