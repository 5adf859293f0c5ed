-- gd_in_step ends where the step ends: comparing rows ends a scan only by their first column, so that a page that was not full
-- went on through all instances in steps whose names come before.

-- Instances with history that are in a step, the newest first: before one, and with a status, if these are given; those with
-- another one are passed over, however many. Compared such that no other index has the order.
create or replace function :"schema".gd_in_step(
  fsm text, step text, status text default null, before bigint default null, most int default 100)
returns table (id bigint, version int, status text, seq bigint, updated_at timestamptz)
language sql stable
begin atomic
  select g.id, g.fsm_version, g.status::text, g.seq, g.updated_at
  from :"schema".gen_durable g
  where g.fsm = gd_in_step.fsm and g.ledger_step >= gd_in_step.step
    and (g.ledger_step, g.id) < (gd_in_step.step, coalesce(gd_in_step.before, 9223372036854775807))
    and (gd_in_step.status is null or g.status::text = gd_in_step.status)
  order by g.ledger_step desc, g.id desc
  limit least(greatest(gd_in_step.most, 1), 10000);
end;

select :"schema".gd_note_version(15);
