-- What is written of a plain `next`, of the locked rows. Which columns more stands behind this.
  update :"schema".gen_durable g
  set status = 'runnable', seq = g.seq + 1, step = h.step, state = h.state::jsonb, attempt = 0, eligible_at = clock_timestamp(),
      crashes = 0, excused = null, trials = 0, last_error = null, awaits = null, deadline = null, wake_reason = null,
      locked_by = null, lease_expires_at = null, updated_at = clock_timestamp()
