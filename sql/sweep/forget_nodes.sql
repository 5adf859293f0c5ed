-- Forgets nodes that have gone without a word: none of their sessions lives, and they have been silent for a day, or their
-- host has 20 that came later. One that says just then that it lives stays.
with gone as materialized (
  select n.incarnation
  from :"schema".gen_durable_nodes n
  where
-- include parts/silent.sql
  and n.incarnation in (
    select x.incarnation
    from (
      select m.incarnation, m.seen_at, m.sessions,
        row_number() over (partition by m.host order by m.seen_at desc) as nth
      from :"schema".gen_durable_nodes m) x
    where (x.seen_at < clock_timestamp() - interval '1 day' or x.nth > 20)
      and not exists (
        select
        from jsonb_path_query(x.sessions, '$[*]') s
        join pg_stat_activity a on a.datname = current_database() and
-- include parts/session_of.sql
      ))
  for update skip locked
)
delete from :"schema".gen_durable_nodes n
using gone
where n.incarnation = gone.incarnation
