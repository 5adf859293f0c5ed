-- What makes an instance (g) runnable, and nobody's: a part of an update's "set".
      status = 'runnable', unique_guard = case when g.unique_key is not null and 'runnable' = any(g.unique_scope) then g.unique_key end,
      locked_by = null, lease_expires_at = null
