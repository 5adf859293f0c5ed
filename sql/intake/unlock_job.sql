-- Lets go of the lock of the job that this session has, unless it is $1 bigint. A row: it had one.
select pg_advisory_unlock(hashtext('gen_durable job'), hashint8(current_setting('gd.job')::bigint)), set_config('gd.job', '', false)
where nullif(current_setting('gd.job', true), '') <> $1::bigint::text
