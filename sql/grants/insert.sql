-- The rights of a role that inserts and signals, by gd_insert and gd_signal, gd::transaction and gd::client, and of no more
-- columns than these need. What it still can do, the guide says: whoever is not trusted so far gets functions.sql instead.
-- psql -v schema=public -v role=app -f insert.sql
grant usage on schema :"schema" to :"role";
grant select (id, fsm, fsm_version, status, awaits, awaits_also, queue, priority, partition_key, crashes, unique_key, unique_scope,
    unique_guard, wake_reason, eligible_at, history, inserted_at, updated_at),
  insert (id, fsm, fsm_version, step, status, state, result, awaits, queue, priority, partition_key, eligible_at, deadline,
    unique_key, unique_scope, unique_guard, history, ledger_step, inserted_at, traceparent),
  update (status, unique_guard, awaits, awaits_also, eligible_at, wake_reason, updated_at)
  on :"schema".gen_durable to :"role";
grant select, insert, update on :"schema".gen_durable_due to :"role";
grant select (id, target_id, dedup_key, consumed_at), insert (id, target_id, name, payload, dedup_key, traceparent)
  on :"schema".gen_durable_signals to :"role";
grant select on :"schema".gen_durable_machines, :"schema".gen_durable_schema to :"role";
grant usage on sequence :"schema".gen_durable_id_seq, :"schema".gen_durable_signals_id_seq to :"role";
