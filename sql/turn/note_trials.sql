-- Notes on rows how many trials they have had from which nobody has come back: before a step runs alone, when it has
-- survived that, and when its own actor has died; and that the process has ended that ran it, where that is a worker's,
-- whose end no lease tells of. A row for each: its id, and whether its lease is in force, without which
-- nothing is changed. No row: a stranger holds the row's lock (or it is deleted); try again.
-- $1 bigint[] id (each once), $2 text[] token, $3 int[] trials, $4 int[] crashes to add
with held as materialized (
  select e.id, e.trials, e.more, (g.locked_by = e.token and g.status = 'executing') is true as fenced
  from (select * from unnest($1::bigint[], $2::text[], $3::int[], $4::int[]) as e (id, token, trials, more) order by e.id) e
-- include parts/lock_row.sql
), noted as (
  update :"schema".gen_durable g
  set trials = h.trials, crashes = least(g.crashes, 2147483646 - h.more) + h.more, updated_at = clock_timestamp()
  from held h
  where g.id = any(array[h.id]) and h.fenced
)
select h.id, h.fenced from held h
