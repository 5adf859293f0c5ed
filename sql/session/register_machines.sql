-- Makes machines known to programs that do not have them.
-- $1 text[] fsm, $2 int[] version, $3 text[] initial step, $4 text[] queue, $5 text[] steps, joined by commas, $6 text[]
-- transitions, JSON, $7 smallint[] history, $8 bigint[] for how long it is kept in us, or null; may be shorter, $9 text[]
-- what concerns those outside, JSON, $10 bigint[] for how long consumed dedup keys are remembered in us, or null; may be
-- shorter, $11 text[] for how long what has ended is kept, JSON, or null; may be shorter, $12 text[] what states and payloads look
-- like, JSON
-- A row for each that was known as something else, but for what it looks like: its name and version; what it was: steps, initial_step, queue,
-- transitions and what concerns those outside (open), both as JSON, history, keep_us, forget_us, retention; whether it had
-- other steps, declared other transitions, or opened others: replaced.
with mine as materialized (
  select m.fsm, m.version, m.initial_step, m.queue, string_to_array(m.steps, ',') as steps,
    m.transitions::jsonb as transitions, m.history, m.keep_us / 1000000 * interval '1 second' as history_keep,
    m.outside::jsonb as outside, m.forget_us / 1000000 * interval '1 second' as forget_dedup_after,
    m.retention::jsonb as retention, m.shape::jsonb as shape
  from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
              $9::text[], $10::bigint[], $11::text[], $12::text[])
    as m (fsm, version, initial_step, queue, steps, transitions, history, keep_us, outside, forget_us, retention, shape)
), before as materialized (
  select k.fsm, k.version, k.initial_step, k.queue, k.steps, k.transitions::text as transitions,
    k.outside::text as open, k.history, k.history_keep, k.forget_dedup_after, k.retention,
    not (k.steps @> m.steps and m.steps @> k.steps)
      or coalesce(jsonb_strip_nulls(k.transitions) <> jsonb_strip_nulls(m.transitions), false)
      or coalesce(k.outside <> m.outside, false) as replaced
  from mine m
  cross join lateral (
    select k.* from :"schema".gen_durable_machines k where k.fsm = m.fsm and k.version = m.version offset 0) k
  where (k.initial_step, k.queue, k.steps, k.transitions, k.history, k.history_keep, coalesce(k.outside, m.outside),
         k.forget_dedup_after, k.retention)
    is distinct from (m.initial_step, m.queue, m.steps, m.transitions, m.history, m.history_keep, m.outside,
                      m.forget_dedup_after, m.retention)
), registered as (
  insert into :"schema".gen_durable_machines (fsm, version, initial_step, queue, steps, transitions, history, history_keep,
    outside, forget_dedup_after, retention, shape)
  select m.fsm, m.version, m.initial_step, m.queue, m.steps, m.transitions, m.history, m.history_keep, m.outside,
    m.forget_dedup_after, m.retention, m.shape
  from mine m
  order by m.fsm, m.version
  on conflict (fsm, version) do update
    set (initial_step, queue, steps, transitions, history, history_keep, outside, forget_dedup_after, retention, shape)
      = row (excluded.initial_step, excluded.queue, excluded.steps, excluded.transitions, excluded.history,
             excluded.history_keep, excluded.outside, excluded.forget_dedup_after, excluded.retention, excluded.shape)
    where (gen_durable_machines.initial_step, gen_durable_machines.queue, gen_durable_machines.steps,
           gen_durable_machines.transitions, gen_durable_machines.history, gen_durable_machines.history_keep,
           gen_durable_machines.outside, gen_durable_machines.forget_dedup_after, gen_durable_machines.retention,
           gen_durable_machines.shape)
      is distinct from (excluded.initial_step, excluded.queue, excluded.steps, excluded.transitions, excluded.history,
                        excluded.history_keep, excluded.outside, excluded.forget_dedup_after, excluded.retention, excluded.shape)
)
select b.fsm, b.version, left(b.initial_step, 1025) as initial_step, left(b.queue, 1025) as queue, b.steps, b.transitions,
  b.open, b.history, (extract(epoch from b.history_keep) * 1000000)::bigint as keep_us,
  (extract(epoch from b.forget_dedup_after) * 1000000)::bigint as forget_us, b.retention::text as retention,
  b.replaced
from before b
order by b.fsm, b.version
