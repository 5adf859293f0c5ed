-- Enters into the ledger what a, behind this, has returned.
insert into :"schema".gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, from_step, to_step, attempt, token,
  wake_reason, reason, metadata, state)
select a.id, a.seq, a.updated_at, a.fsm_version, a.outcome, a.from_step, a.step, a.attempt, a.token, a.wake_reason, a.reason,
  a.metadata, a.state
