-- How long this transaction may wait for a row's lock. $1 text: a time with unit
select set_config('lock_timeout', $1::text, true)
