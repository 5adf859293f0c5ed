-- Before the statements of users that outcomes carry, until the transaction ends: what a session of ours pins for itself is not
-- theirs, nor are its rights, if a role is set, and their triggers see an ordinary session.
-- $1 text search_path, $2 text role, or empty, $3 text statement timeout, with unit, $4 text lock timeout, with unit
select
  set_config('search_path', $1::text, true),
  set_config('statement_timeout', $3::text, true),
  set_config('lock_timeout', $4::text, true),
  set_config('gd.trusted', '', true),
  set_config('row_security', 'on', true),
  set_config('enable_seqscan', 'on', true),
  set_config('enable_bitmapscan', 'on', true),
  set_config('plan_cache_mode', 'auto', true),
  case when $2::text <> '' then set_config('role', $2::text, true) end
