-- Behind what makes instances runnable, and returns them (applied, with parts/due_row.sql and the version): they are due. Those with a
-- partition key have stood there while they executed.
moved as (
  update :"schema".gen_durable_due d
  set (fsm, fsm_version, queue, priority, eligible_at, crashes, executes)
    = row (a.fsm, a.fsm_version, a.queue, a.priority, a.eligible_at, a.crashes, false)
  from applied a
  where a.status = 'runnable' and a.partition_key is not null and d.partition_key = a.partition_key and d.id = any(array[a.id])
  returning d.id
), listed as (
  insert into :"schema".gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at, crashes)
  select a.id, a.fsm, a.fsm_version, a.queue, a.partition_key, a.priority, a.eligible_at, a.crashes
  from applied a
  where a.status = 'runnable' and (a.partition_key is null or a.id not in (select m.id from moved m))
)
