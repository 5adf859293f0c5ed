-- Of those that return rows whose lease is over, which say what the limit of trials is (most), and of each row (expired) whether its
-- process has crashed and which ends it would be charged with, that one the last: with which it is charged (verdict).
-- Not with one that another row has caused: that row's trial was under way, or it was convicted since, for being on trial too
-- often. A row that has died in trials of its own stays charged with what it was charged with before.
-- What comes to light by these rows is noted: what ended while they were on trial, and what those had ended that are convicted now.
known as materialized (
  select p.process, c.instance_id
  from (select distinct p.process from expired e cross join lateral unnest(e.crashed_in) as p (process)) p
  cross join lateral (
    select c.instance_id
    from :"schema".gen_durable_crashes c
    where c.process = p.process
      and (c.known or c.token = (
        select g.locked_by from :"schema".gen_durable g where g.id = c.instance_id and g.status = 'executing'))
    offset 0
  ) c
), charge as materialized (
  select e.id, e.locked_by as token, e.crashed, e.trials, e.attempt, v.crashed_in,
    least(e.crashes, 2147483646) + e.crashed::int - cardinality(e.crashed_in) + cardinality(v.crashed_in) as crashes,
    coalesce(e.excused, 0) + cardinality(e.crashed_in) - cardinality(v.crashed_in) as excused,
    e.crashed_in[cardinality(e.crashed_in)] as process
  from expired e
  cross join lateral (
    select array(
      select p.process
      from unnest(e.crashed_in) with ordinality as p (process, nth)
      where p.process not in (select k.process from known k where k.instance_id <> e.id)
        or e.trials > 0 and p.nth < cardinality(e.crashed_in) + (not e.crashed)::int
      order by p.nth) as crashed_in
  ) v
), noted as (
  insert into :"schema".gen_durable_crashes (process, instance_id, known, open)
  select b.process, b.id, true, bool_or(b.convicted)
  from (
    select k.process, v.id, false as convicted
    from charge v
    join known k on k.process = v.process and k.instance_id = v.id
    where v.crashed
    union all
    select p.process, v.id, true
    from charge v
    cross join most m
    cross join lateral unnest(v.crashed_in) as p (process)
    where m.trials > 0 and least(v.trials, v.attempt + 1::bigint) >= m.trials and v.crashes >= 2) b
  group by b.process, b.id
)
