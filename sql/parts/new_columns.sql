-- What new_rows gives values to.
id, fsm, fsm_version, step, state, queue, priority, eligible_at, partition_key, unique_key, unique_scope, inserted_at, traceparent
