-- Behind parts/enter: what stands there under the same number is of an instance that has gone, or somebody has changed seq by hand.
-- It must not keep the row, or a sweep of all of them, from going on.
on conflict (instance_id, seq) do update
set (at, fsm_version, outcome, from_step, to_step, attempt, token, by, wake_reason, reason, metadata, state)
  = row (excluded.at, excluded.fsm_version, excluded.outcome, excluded.from_step, excluded.to_step, excluded.attempt,
         excluded.token, excluded.by, excluded.wake_reason, excluded.reason, excluded.metadata, excluded.state)
