-- When a finished instance is to be deleted: null, never. By machine, for how long instances are kept, by the status in which
-- they have ended, in us, and how young nothing may be that is deleted (resend): null, for ever.
alter table :"schema".gen_durable add column expires_at timestamptz;
create index gen_durable_expires on :"schema".gen_durable (expires_at, id) where expires_at is not null;
alter table :"schema".gen_durable_machines add column retention jsonb;

-- Whether instances are deleted: no library works with them that does not know that they may be.
create function :"schema".gd_deletes() returns boolean
language sql stable
begin atomic
  select substring(obj_description(cast(quote_ident(:'schema') || '.gen_durable' as regclass), 'pg_class')
                   from '[0-9]+$')::int >= 24;
end;

-- When an instance is to be deleted that ends now, but not by a step's outcome: those go by parts/expiry.sql, which is more
-- exact. Here what is kept for less than resend is kept for that. Null: never.
create function :"schema".gd_expiry(fsm text, version int, status text, unique_scope text[]) returns timestamptz
language sql
begin atomic
  select clock_timestamp() + greatest(k.keep_us, (m.retention ->> 'resend')::bigint) * interval '1 microsecond'
  from :"schema".gen_durable_machines m
  cross join lateral (select (m.retention ->> gd_expiry.status)::bigint as keep_us) k
  where m.fsm = gd_expiry.fsm and m.version = gd_expiry.version and :"schema".gd_deletes()
    and (k.keep_us > 0 or not gd_expiry.status = any(gd_expiry.unique_scope));
end;

-- Changes one place of a function, whatever versions in between have made of the rest.
create function :"schema".gd_change(function text, was text, is_now text) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  definition text := pg_get_functiondef(pg_catalog.to_regproc(function));
begin
  if position(was in definition) = 0 then
    raise exception '% has no "%"', function, was;
  end if;
  execute pg_catalog.replace(definition, was, is_now);
end
$$;

select :"schema".gd_change('gd_move', 'deadline = there.deadline, wake_reason = null,',
  'deadline = there.deadline, wake_reason = null,
        expires_at = case when there.status::text = ''done''
          then gd_expiry(here.fsm, here.fsm_version, text ''done'', here.unique_scope) end,');
select :"schema".gd_change('gd_put_back', 'deadline = arrival.deadline, wake_reason = null,',
  'deadline = arrival.deadline, wake_reason = null,
      expires_at = case when arrival.status::text = ''done''
        then gd_expiry(was.fsm, was.fsm_version, text ''done'', was.unique_scope) end,');

select :"schema".gd_change('gd_act', 'lease_expires_at = case when what = ''stop'' then null else g.lease_expires_at end,',
  'lease_expires_at = case when what = ''stop'' then null else g.lease_expires_at end,
        expires_at = case what when ''stop'' then gd_expiry(here.fsm, here.fsm_version, text ''failed'', here.unique_scope)
                               when ''retry'' then null else g.expires_at end,');

select :"schema".gd_note_version(24);
