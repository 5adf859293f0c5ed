-- Runnable instances of versions that no node serves, and that this one brings to another: the first 100, with their states, which are
-- decoded by whoever asks. $1 text[] machines, $2 int[] the version of each, $3 int[] the one that it goes to, $4 text[] this node's queues,
-- $5 bigint bytes that states have at the most, but for the first, $6 bigint[] ids to be left out
-- A row for each: its id, and its machine, version, step and seq; the version that it goes to, and the step there; its state, and its place,
-- which is another one as soon as it has changed.
with older as materialized (
  select m.fsm, m.version, m.to_version, q.queue
  from unnest($1::text[], $2::int[], $3::int[]) m (fsm, version, to_version)
  cross join unnest($4::text[]) q (queue)
  where not exists (
    select
    from :"schema".gen_durable_machines k
    where k.fsm = m.fsm and k.version = m.version and k.served)
), due as materialized (
  select d.id, o.to_version
  from older o
  cross join lateral (
    (
      select d.id
      from :"schema".gen_durable_due d
      where (d.partition_key is null) is true and d.crashes < 2
-- include parts/older_first.sql
    )
    union all
    (
      select d.id
      from :"schema".gen_durable_due d
      where d.partition_key is not null and not d.executes
-- include parts/older_first.sql
    )
    union all
    (
      select d.id
      from :"schema".gen_durable_due d
      where d.crashes >= 2 and not d.executes
-- include parts/older_first.sql
    )) d
  limit 100
), chosen as materialized (
  select d.id, min(d.to_version) as to_version from due d group by d.id
), shown as materialized (
  select c.id, g.fsm, g.version, g.step, g.seq, c.to_version, g.state, g.place,
    sum(octet_length(g.state)) over (order by c.id) - octet_length(g.state) as before
  from chosen c
  cross join lateral (
    select g.fsm, g.fsm_version as version, g.step, g.seq, g.state::text as state, g.ctid::text as place
    from :"schema".gen_durable g
    where g.id = c.id and g.status = 'runnable'
    offset 0) g
)
select s.id, s.fsm, s.version, s.step, s.seq, s.to_version, s.step as to_step, s.state, s.place
from shown s
where s.before <= $5::bigint
order by s.id
