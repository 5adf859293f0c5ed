-- The states and inboxes of rows that a pick has taken and not shown, one after the other, until so many bytes are
-- printed: what comes behind that costs nothing. Of an inbox the oldest 8 MiB and one more; what a step has not been shown
-- wakes it when it parks.
-- For the status behind a select see pick_keyed.
-- $1 bigint[] id, $2 int signals of an inbox at the most, $3 text[] lease token, $4 bigint bytes, $5 bigint the most that is
-- read of one text
-- A row for each that was looked at, at least one, in the order given: its id; its state, or null if the lease is not in
-- force; its signals. A state or payload that is longer than the most is empty,
-- and so is one with numbers that nobody has checked. Names are cut as in pick_rows.
with recursive shown as (
  select 0 as n, 0::bigint as bytes, null::bigint as id, null::text as state, null::bigint[] as ids, null::text[] as names,
    null::text[] as payloads, null::text[] as traces
  union all
  select s.n + 1, s.bytes + coalesce(g.bytes, 0) + coalesce(i.bytes, 0), ($1::bigint[])[s.n + 1], g.text, i.ids, i.names,
    i.payloads, i.traces
  from shown s
  left join lateral (
    select x.id, p.bytes, p.text
    from (
      select g.id, g.state as value
      from :"schema".gen_durable g
      where g.id = ($1::bigint[])[s.n + 1] and g.locked_by = ($3::text[])[s.n + 1]
        and g.status = (select cast('executing' as :"schema".gen_durable_status))
      offset 0
    ) x
    cross join lateral (
-- include parts/printed.sql
    ) p
    offset 0
  ) g on true
  left join lateral (
    with recursive listed as materialized (
      select array_agg(l.id) as ids
      from (
        select x.id
        from (select * from :"schema".gen_durable_signals x where x.target_id = g.id and x.consumed_at is null offset 0) x
        order by x.id
        limit $2::int
      ) l
    ), entry as (
      select 0 as n, 0::bigint as bytes, null::bigint as id, null::text as name, null::text as payload,
        null::text as trace
      union all
      select e.n + 1, e.bytes + x.bytes + octet_length(x.name), x.id, x.name, x.text, x.trace
      from entry e
      cross join listed l
      cross join lateral (
        select x.id, x.name, x.trace, p.bytes, p.text
        from (
          select x.id, left(x.name, 1025) as name, coalesce(left(x.traceparent, 55), '') as trace, x.payload as value
          from :"schema".gen_durable_signals x
          where x.id = l.ids[e.n + 1]
          offset 0
        ) x
        cross join lateral (
-- include parts/printed.sql
        ) p
        offset 0
      ) x
      where e.bytes < 8388608
    )
    select max(e.bytes) as bytes, array_agg(e.id order by e.n) as ids, array_agg(e.name order by e.n) as names,
      array_agg(e.payload order by e.n) as payloads, array_agg(e.trace order by e.n) as traces
    from entry e
    where e.n > 0
  ) i on true
  where s.n < cardinality($1::bigint[]) and s.bytes < $4::bigint
)
select s.id, s.state, s.ids, s.names, s.payloads, s.traces from shown s where s.n > 0 order by s.n
