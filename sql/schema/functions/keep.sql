-- When an instance is to be deleted that ends now, but not by a step's outcome: those go by parts/expiry.sql, which is more
-- exact. Here what is kept for less than resend is kept for that. Null: never.
create function :"schema"._gd_expiry(fsm text, version int, status text, unique_scope text[]) returns timestamptz
language sql
begin atomic
  select clock_timestamp() + greatest(k.keep_us, (m.retention ->> 'resend')::bigint) * interval '1 microsecond'
  from :"schema".gen_durable_machines m
  cross join lateral (select (m.retention ->> _gd_expiry.status)::bigint as keep_us) k
  where m.fsm = _gd_expiry.fsm and m.version = _gd_expiry.version
    and (k.keep_us > 0 or not _gd_expiry.status = any(_gd_expiry.unique_scope));
end;
