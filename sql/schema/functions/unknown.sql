-- Names that nobody has are told to whoever types them.

-- By how many letters two names differ: one left out, added or another, or two that have changed places. Of longer ones, the
-- first 64.
create function :"schema"._gd_distance(a text, b text) returns int
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  x text[] := string_to_array(lower(left(a, 64)), null);
  y text[] := string_to_array(lower(left(b, 64)), null);
  before int[];
  last int[] := array(select generate_series(0, coalesce(cardinality(y), 0)));
  now int[];
begin
  for i in 1 .. coalesce(cardinality(x), 0) loop
    now := array[i];
    for j in 1 .. coalesce(cardinality(y), 0) loop
      now := now || least(now[j] + 1, last[j + 1] + 1, last[j] + (x[i] <> y[j])::int,
        case when i > 1 and j > 1 and x[i] = y[j - 1] and x[i - 1] = y[j] then before[j - 1] + 1 end);
    end loop;
    before := last;
    last := now;
  end loop;
  return last[cardinality(last)];
end
$$;

-- Which of these names may have been meant: a third of its letters may be wrong, rounded up where both begin with the same two (Lone,
-- Loan). Null: none.
create function :"schema"._gd_nearest(name text, known text[]) returns text
language sql immutable
begin atomic
  select k.name
  from unnest(_gd_nearest.known) k (name)
  cross join lateral (
    select greatest(1, (least(length(_gd_nearest.name), length(k.name))
      + case when lower(left(_gd_nearest.name, 2)) = lower(left(k.name, 2)) then 2 else 0 end) / 3) as most) m
  cross join lateral (
    select case when abs(length(k.name) - length(_gd_nearest.name)) <= m.most
                then :"schema"._gd_distance(_gd_nearest.name, k.name) end as distance) d
  where k.name <> _gd_nearest.name and d.distance <= m.most
  order by d.distance, k.name
  limit 1;
end;

-- "; did you mean order?", of names that differ by little; else nothing.
create function :"schema"._gd_meant(name text, known text[]) returns text
language sql immutable
begin atomic
  select coalesce('; did you mean ' || left(:"schema"._gd_nearest(_gd_meant.name, _gd_meant.known), 255) || '?', '');
end;

-- Names as sentences list them: a|b|c.
create function :"schema"._gd_one_of(known text[]) returns text
language sql immutable
begin atomic
  select case when cardinality(_gd_one_of.known) = 0 then 'none'
              else 'one of ' || left(array_to_string(_gd_one_of.known, '|'), 1000) end;
end;

-- All names of a kind that somebody has, some of them more than once: queue, machine; of a machine, or of all, step; of a machine,
-- version. Of the rows as many are looked at as a page of list looks at, and what the server's statistics tell of the others. What is
-- read soonest comes first: who looks for one name reads on to that one.
create function :"schema"._gd_names(kind text, fsm text) returns setof text
language sql stable
begin atomic
  select case _gd_names.kind when 'queue' then m.queue when 'machine' then m.fsm when 'version' then m.version::text end
  from :"schema".gen_durable_machines m
  where _gd_names.fsm is null or m.fsm = _gd_names.fsm
  union all
  select s
  from :"schema".gen_durable_machines m
  cross join lateral unnest(m.steps) s
  where _gd_names.kind = 'step' and (_gd_names.fsm is null or m.fsm = _gd_names.fsm)
  union all
  select q ->> 'name'
  from :"schema".gen_durable_nodes n
  cross join lateral jsonb_path_query(n.queues, '$[*]') q
  where _gd_names.kind = 'queue'
  union all
  select q.queue from :"schema".gen_durable_queues q where _gd_names.kind = 'queue'
  union all
  select unnest(cast(cast(s.most_common_vals as text) as text[]))
  from pg_stats s
  where s.schemaname = :'schema' and s.tablename = 'gen_durable' and _gd_names.fsm is null
    and s.attname = case _gd_names.kind when 'queue' then 'queue' when 'machine' then 'fsm' when 'step' then 'step' end
  union all
  select case _gd_names.kind when 'queue' then r.queue when 'machine' then r.fsm when 'version' then r.fsm_version::text
                            when 'step' then r.step end
  from (
    (select g.queue, g.fsm, g.fsm_version, g.step from :"schema".gen_durable g order by g.id desc limit 5000)
    union all
    (select g.queue, g.fsm, g.fsm_version, g.step
     from :"schema".gen_durable g where g.failed_id is not null order by g.failed_id desc limit 1000)
    union all
    (select g.queue, g.fsm, g.fsm_version, g.step
     from
-- include parts/executing.sql
     limit 1000)) r
  where _gd_names.fsm is null or r.fsm = _gd_names.fsm;
end;

-- What gd_unknown tells, see there; no row: all are known. That rows are runnable in a queue its indexes tell. Apart from it, so that
-- names are bound when it is made; and what is known is gathered for a name that nobody has.
create function :"schema"._gd_unknown(queue text, fsm text, version int, step text) returns setof text
language sql stable
begin atomic
  select format(w.sentence, left(w.name, 255)) || case
    when w.kind = 'version' then coalesce('; known are ' || nullif(array_to_string(k.known, ', '), ''), '')
    else :"schema"._gd_meant(w.name, k.known) end
  from (values
    (1, 'queue', _gd_unknown.queue, 'queue: no node serves %s, and nothing is in it'),
    (2, 'machine', _gd_unknown.fsm, 'machine: no node has made %s known, and there is no instance of it'),
    (3, 'version', case when _gd_unknown.fsm is not null then _gd_unknown.version::text end,
     'version: no node has made v%s of that machine known, and there is no instance of it'),
    (4, 'step', _gd_unknown.step, 'step: no machine that is meant has %s, and no instance is there')) w (n, kind, name, sentence)
  cross join lateral (select case when w.n > 2 then _gd_unknown.fsm end as fsm) of_machine
  cross join lateral (
    select array(select distinct s from :"schema"._gd_names(w.kind, of_machine.fsm) s
                 where s is not null order by s) as known
    offset 0) k
  where w.name is not null
    and not (w.kind = 'queue' and (
      exists (
        with recursive
-- include parts/pick_ranges.sql
        select from ranges r where r.queue = w.name)
      or exists (
        with recursive
-- include parts/suspect_places.sql
        select from (select s.queue from suspect s limit 1000) s where s.queue = w.name)))
    and (select true from :"schema"._gd_names(w.kind, of_machine.fsm) s where s = w.name limit 1) is null
  order by w.n
  limit 1;
end;

-- Which of these names nobody has, in a sentence that says which one may have been meant; null: all are known. It is told of the
-- first one. The plan is kept by the session: it costs more to make than anything that it reads.
create function :"schema".gd_unknown(
  queue text default null, fsm text default null, version int default null, step text default null) returns text
language plpgsql stable
set search_path = :"schema", pg_temp
set jit = off
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return (select x.sentence from _gd_unknown(gd_unknown.queue, gd_unknown.fsm, gd_unknown.version, gd_unknown.step) x (sentence));
end
$$;

-- The queue; or MV008, if nobody has it, unless that is meant.
create function :"schema"._gd_known_queue(queue text, force boolean) returns text
language plpgsql stable
set search_path = :"schema", pg_temp
as $$
declare
  fault text := case when (force or _gd_name_fault('queue', queue, 255) is not null) is not true then gd_unknown(queue) end;
begin
  if fault is not null then
    raise exception using errcode = 'MV008', message = fault, hint = 'force => true does it all the same.';
  end if;
  return queue;
end
$$;
