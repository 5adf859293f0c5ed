-- What became of an insert, in a statement (and so a snapshot) of its own.
-- $1 bigint[] id, $2 bytea[] unique key, or null, $3 bigint[] when the id was drawn, in us since 1970
-- A row for each id: whether it is there, whether another's row is (of another draw: a server that had lost its last moments,
-- a failover, draws ids again for others, as does a sequence that stands behind the rows), and if it is not there, which instance
-- has its unique key, and that one's machine; null: none any more.
-- None of it is told before a synchronous standby has it.
with replicated as materialized (
  select
-- include parts/replicated.sql
    as lsn
)
select e.id, g.own is true as found, g.own is false as taken, o.id as holder, left(o.fsm, 1025) as holder_fsm
from unnest($1::bigint[], $2::bytea[], $3::bigint[]) as e (id, unique_key, drawn_us)
cross join replicated
left join lateral (
  select g.inserted_at = timestamptz 'epoch' + e.drawn_us / 1000000 * interval '1 second'
                         + e.drawn_us % 1000000 * interval '1 microsecond' as own
  from :"schema".gen_durable g
  where g.id = e.id
  offset 0
) g on true
left join lateral (
  select o.id, o.fsm
  from :"schema".gen_durable o
  where o.unique_guard = e.unique_key and g.own is not true
  offset 0
) o on true
