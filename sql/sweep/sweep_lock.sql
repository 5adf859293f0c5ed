-- Whether this session is the one whose node sweeps for the whole database: it holds the lock, or gets it now.
select current_setting('gd.sweeper', true) is not distinct from 'on'
  or (pg_try_advisory_lock(hashtext('gen_durable sweep'), hashtext(:'schema'))
      and set_config('gd.sweeper', 'on', false) = 'on') as ours
