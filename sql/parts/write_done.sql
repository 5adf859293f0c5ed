-- What is written of a plain `done`.
  update :"schema".gen_durable g
  set status = 'done', seq = g.seq + 1, result = '{}', crashes = 0, excused = null, trials = 0, last_error = null, awaits = null, deadline = null,
      wake_reason = null,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
