-- Of those that write `next` outcomes of rows that go on at once. Which of them stands behind this.
applied as (
  update :"schema".gen_durable g
  set seq = g.seq + 1, step = h.step, state = h.state::jsonb, attempt = 0, crashes = 0, excused = null, trials = 0, last_error = null,
      deadline = null, wake_reason = null, locked_by = $6::text, updated_at = clock_timestamp()
