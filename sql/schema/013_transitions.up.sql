-- To be replaced by the transitions from outside. gd_arrival is that of the migration before.

-- How an instance arrives at a step of a machine in which no function runs. No row: at another one, or nobody knows it.
create function :"schema".gd_arrival(
  fsm text, version int, step text,
  out status :"schema".durable_status, out awaits text, out deadline timestamptz, out result jsonb)
returns setof record
language sql
begin atomic
  select cast(case when w.ends then 'done' else 'awaiting_signal' end as :"schema".durable_status),
    case when not w.ends then '' end, clock_timestamp() + w.after_us * interval '1 microsecond',
    case when w.ends then jsonb '{}' end
  from (
    select coalesce((k.what ->> 'ends')::boolean, false) as ends, coalesce((k.what ->> 'rests')::boolean, false) as rests,
      (k.what ->> 'after_us')::bigint as after_us
    from (
      select m.outside -> gd_arrival.step as what
      from :"schema".gen_durable_machines m
      where m.fsm = gd_arrival.fsm and m.version = gd_arrival.version) k
    where k.what is not null) w
  where w.rests or w.ends;
end;

select :"schema".gd_note_version(13);
