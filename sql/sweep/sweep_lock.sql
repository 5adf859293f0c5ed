-- Whether this session is the one whose node does that sweep for the whole database: it holds the lock, or gets it now.
-- $1 text the sweep
select current_setting('gd.holds_' || $1::text, true) is not distinct from 'on'
  or (pg_try_advisory_lock(hashtext('gen_durable ' || $1::text), hashtext(:'schema'))
      and set_config('gd.holds_' || $1::text, 'on', false) = 'on') as ours
