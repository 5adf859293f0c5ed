-- Behind erased, the instances that have been deleted: the histories go with them. No foreign key says so.
erased_entries as (
  delete from :"schema".gen_durable_ledger l
  where l.instance_id = any(array(select e.id from erased e where e.history > 0))
)
