-- Behind what makes instances runnable, and returns them (applied, with parts/due_row.sql and the version): they are due. Those with a
-- partition key have stood there while they executed.
moved as (
  update :"schema".gen_durable_due d
  set (fsm, fsm_version, queue, priority, eligible_at, crashes, executes)
    = row (m.fsm, m.fsm_version, m.queue, m.priority, m.eligible_at, m.crashes, false)
  from (
    select a.*, k.due
    from applied a
-- include parts/keyed_place.sql
    where a.status = 'runnable' and a.partition_key is not null) m
  where d.ctid = m.due
  returning d.id
), listed as (
  insert into :"schema".gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at, crashes)
  select a.id, a.fsm, a.fsm_version, a.queue, a.partition_key, a.priority, a.eligible_at, a.crashes
  from applied a
  where a.status = 'runnable' and (a.partition_key is null or a.id not in (select m.id from moved m))
)
