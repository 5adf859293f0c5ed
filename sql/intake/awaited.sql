-- Of instances whose ends are awaited: those that have ended, and those that are not there; with $4, all of them.
-- $1 bigint[] ids; $3 bytea[] behind them: unique keys that instances have now; $2 bigint the most that is read of a result, as of
-- look_up; $4 boolean whether those that go on are told, too; $5 bigint bytes of results that are read, but for the first: what
-- is stored compressed is taken for sixteen times as long.
-- A row for each that is told. n: its place in $1, or behind that in $3, from 1; id null: there is no such instance; left_out: it has
-- ended, and its result is to be asked for again. Names and reasons that are longer than any of ours are cut.
select a.n, a.id, a.fsm, a.version, a.status, a.seq, a.ends and a.before > 0 and a.before + a.bytes > $5::bigint as left_out,
  case when octet_length(c.result) > $2::bigint then '' else c.result end as result, c.failure
from (
  select t.n, g.id, g.fsm, g.version, g.status, g.seq, coalesce(g.ends, false) as ends, coalesce(g.bytes, 0) as bytes,
    coalesce(sum(g.bytes) over (order by t.n rows between unbounded preceding and 1 preceding), 0) as before
  from (
    select i.n, i.id from unnest($1::bigint[]) with ordinality as i (id, n)
    union all
    select cardinality($1::bigint[]) + k.n,
      (select o.id from :"schema".gen_durable o where o.unique_guard = k.key)
    from unnest($3::bytea[]) with ordinality as k (key, n)
  ) t
  left join lateral (
    select g.id, left(g.fsm, 1025) as fsm, g.fsm_version as version, g.status::text as status, g.seq,
      g.status in ('done', 'failed') as ends,
      case when g.status = 'done'
           then pg_column_size(g.result)::bigint * case when pg_column_compression(g.result) is null then 1 else 16 end
           else 0 end as bytes
    from :"schema".gen_durable g
    where g.id = t.id
    offset 0
  ) g on true
  where g.id is null or g.ends or $4::boolean
) a
left join lateral (
  select case when g.status = 'failed' then left(g.last_error, $2::bigint::int) end as failure,
    (select
-- include parts/value_text.sql
     from (select g.result as value where g.status = 'done' offset 0) x) as result
  from :"schema".gen_durable g
  where g.id = a.id and a.ends and (a.before = 0 or a.before + a.bytes <= $5::bigint)
  offset 0
) c on true
