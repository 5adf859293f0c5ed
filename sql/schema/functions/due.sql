-- What stands in gen_durable_due and gen_durable_leases, for whoever does not see to it by himself: with the rights of the tables'
-- owner, for who inserts an instance, or changes one, needs none to these. How far a session is trusted says gd.trusted: "json", it
-- has checked the states and payloads that it stores; "all", it sees to both tables, too, as the library's own sessions do.

-- Takes an instance out of gen_durable_due, as it stood there.
create function :"schema"._gd_unlist(was :"schema".gen_durable) returns void
language sql
begin atomic
  delete from :"schema".gen_durable_due d
  where was.partition_key is null and was.crashes < 2 and (d.partition_key is null) is true and d.crashes < 2
    and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(was.queue, hashtextextended(was.fsm, was.fsm_version))
    and d.queue = was.queue and d.fsm = was.fsm and d.fsm_version = was.fsm_version and d.priority = was.priority
    and d.eligible_at = was.eligible_at and d.id = was.id;
  delete from :"schema".gen_durable_due d
  where was.partition_key is null and was.crashes >= 2 and d.crashes >= 2 and not d.executes
    and hashtextextended(d.queue, hashtextextended(d.fsm, d.fsm_version)) = hashtextextended(was.queue, hashtextextended(was.fsm, was.fsm_version))
    and d.queue = was.queue and d.fsm = was.fsm and d.fsm_version = was.fsm_version and d.priority = was.priority
    and d.eligible_at = was.eligible_at and d.id = was.id;
  delete from :"schema".gen_durable_due d
  where d.partition_key = was.partition_key and d.executes = (was.status = 'executing') and d.priority = was.priority
    and d.eligible_at = was.eligible_at and d.id = was.id;
end;

-- An instance that was inserted, changed or deleted. Whose unique_guard or failed_id does not say what the status does, both are
-- written once more: generated columns would be made anew with each status, of each row, for what few rows have.
create function :"schema"._gd_see_to() returns trigger
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
declare
  inserted boolean := tg_op = 'INSERT';
  fault text;
begin
  if tg_op <> 'DELETE' and current_setting('gd.trusted', true) is distinct from 'json' then
    if inserted or new.state is distinct from old.state then
      fault := coalesce(_gd_json_fault('state', new.state),
                        case when jsonb_typeof(new.state) <> 'object' then 'state: $: expected object' end);
      if fault is not null then
        raise exception using errcode = '22023', message = fault;
      end if;
    end if;
  end if;
  if tg_op <> 'DELETE' and (new.unique_guard, new.failed_id) is distinct from (
    case when new.status::text = any(new.unique_scope::text[]) then new.unique_key end,
    case when new.status::text = 'failed' then new.id end) then
    update gen_durable g
    set unique_guard = case when g.status::text = any(g.unique_scope::text[]) then g.unique_key end,
        failed_id = case when g.status::text = 'failed' then g.id end
    where g.id = new.id;
  end if;
  if tg_op = 'UPDATE' and (
    old.id, old.status::text, old.fsm, old.fsm_version, old.queue, old.partition_key, old.priority, old.eligible_at, old.crashes,
    old.locked_by, old.lease_expires_at is null or old.lease_expires_at <= new.lease_expires_at)
    is not distinct from (
    new.id, new.status::text, new.fsm, new.fsm_version, new.queue, new.partition_key, new.priority, new.eligible_at, new.crashes,
    new.locked_by, true) then
    return null;
  end if;
  if not inserted and (old.status::text = 'runnable' or old.status::text = 'executing' and old.partition_key is not null) then
    perform _gd_unlist(old);
  end if;
  if tg_op = 'DELETE' then
    return null;
  end if;
  if new.status::text = 'runnable' or new.status::text = 'executing' and new.partition_key is not null then
    insert into gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at, crashes, executes)
    values (new.id, new.fsm, new.fsm_version, new.queue, new.partition_key, new.priority, new.eligible_at, new.crashes,
      new.status::text = 'executing');
  end if;
  if new.status::text = 'executing' then
    update gen_durable_leases l
    set expires_at = least(l.expires_at, new.lease_expires_at)
    where l.token = new.locked_by and new.id = any(l.ids);
    if not found then
      insert into gen_durable_leases (token, expires_at, ids)
      values (new.locked_by, new.lease_expires_at, array[new.id]);
    end if;
  end if;
  return null;
end
$$;

create function :"schema"._gd_see_to_none() returns trigger
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  delete from gen_durable_due;
  delete from gen_durable_leases;
  return null;
end
$$;

-- What somebody's own trigger does in a session of the library's is not the library's. After, not before: those before a row make each update of it lock it once more, whatever columns it changes. A CHECK of states
-- would unpack them at each heartbeat.
create trigger gen_durable_changed
after insert or update of id, status, state, fsm, fsm_version, queue, partition_key, priority, eligible_at, crashes, locked_by,
  lease_expires_at, unique_key, unique_scope, unique_guard, failed_id
on :"schema".gen_durable
for each row
when (current_setting('gd.trusted', true) is distinct from 'all' or pg_trigger_depth() > 0)
execute function :"schema"._gd_see_to();

create trigger gen_durable_deleted
after delete on :"schema".gen_durable
for each row
when (old.status in ('runnable', 'executing')
  and (current_setting('gd.trusted', true) is distinct from 'all' or pg_trigger_depth() > 0))
execute function :"schema"._gd_see_to();

create trigger gen_durable_emptied
after truncate on :"schema".gen_durable
for each statement
execute function :"schema"._gd_see_to_none();

-- What is wrong with both tables, and with what an instance's status says of its key, where somebody has restored a part of them, or
-- has switched the triggers off. It reads all instances.
create function :"schema"._gd_list_faults() returns setof text
language sql stable
begin atomic
  select format('gen_durable_due: %s instances are runnable and not in it, among them %s: nobody picks them', count(*), min(g.id))
  from :"schema".gen_durable g
  left join :"schema".gen_durable_due d on d.id = g.id
  where (g.status = 'runnable' or g.status = 'executing' and g.partition_key is not null)
    and (d.id, d.fsm, d.fsm_version, d.queue, d.partition_key, d.priority, d.eligible_at, d.crashes, d.executes)
      is distinct from (g.id, g.fsm, g.fsm_version, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes,
                        g.status = 'executing')
  having count(*) > 0
  union all
  select format('gen_durable_due: %s rows are of instances that are not runnable, among them %s: picks pass over them', count(*),
                min(d.id))
  from :"schema".gen_durable_due d
  left join :"schema".gen_durable g on g.id = d.id
  where (g.status = 'runnable' or g.status = 'executing' and g.partition_key is not null) is not true
  having count(*) > 0
  union all
  select format('gen_durable_due: %s instances are in it more than once, among them %s', count(*), min(x.id))
  from (select d.id from :"schema".gen_durable_due d group by d.id having count(*) > 1) x
  having count(*) > 0
  union all
  select format('gen_durable_leases: %s instances execute and are not in it, among them %s: nobody sees that their leases end',
                count(*), min(g.id))
  from :"schema".gen_durable g
  left join (
    select l.token, x.id
    from :"schema".gen_durable_leases l
    cross join lateral unnest(l.ids) as x (id)) l on l.id = g.id and l.token = g.locked_by
  where g.status = 'executing' and l.id is null
  having count(*) > 0
  union all
  select format('gen_durable: %s instances have another unique_guard or failed_id than their status says, among them %s', count(*),
                min(g.id))
  from :"schema".gen_durable g
  where (g.unique_guard, g.failed_id) is distinct from (
    case when g.status = any(g.unique_scope) then g.unique_key end, case when g.status = 'failed' then g.id end)
  having count(*) > 0;
end;

-- Mends that. Who is locked is left as it is: another repair sees to it.
create function :"schema"._gd_list_again() returns setof text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  mended bigint;
  wrong record;
begin
  if not exists (select from _gd_list_faults()) then
    return;
  end if;
  delete from gen_durable_due d
  where d.ctid = any(array(
    select d.ctid
    from gen_durable_due d
    left join gen_durable g on g.id = d.id
    where (d.id, d.fsm, d.fsm_version, d.queue, d.partition_key, d.priority, d.eligible_at, d.crashes, d.executes)
      is distinct from (g.id, g.fsm, g.fsm_version, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes,
                        g.status::text = 'executing')
      or (g.status::text = 'runnable' or g.status::text = 'executing' and g.partition_key is not null) is not true
      or d.id in (select o.id from gen_durable_due o group by o.id having count(*) > 1)
        and exists (select from gen_durable_due o where o.id = d.id and o.ctid < d.ctid)
    for update of d skip locked));
  get diagnostics mended = row_count;
  if mended > 0 then
    return next pg_catalog.format('gen_durable_due: %s rows were deleted', mended);
  end if;
  insert into gen_durable_due (id, fsm, fsm_version, queue, partition_key, priority, eligible_at, crashes, executes)
  select g.id, g.fsm, g.fsm_version, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes, g.status::text = 'executing'
  from gen_durable g
  where (g.status::text = 'runnable' or g.status::text = 'executing' and g.partition_key is not null)
    and not exists (select from gen_durable_due d where d.id = g.id)
  for no key update skip locked;
  get diagnostics mended = row_count;
  if mended > 0 then
    return next pg_catalog.format('gen_durable_due: %s rows were inserted', mended);
  end if;
  insert into gen_durable_leases (token, expires_at, ids)
  select g.locked_by, g.lease_expires_at, array[g.id]
  from gen_durable g
  where g.status::text = 'executing'
    and not exists (select from gen_durable_leases l where l.token = g.locked_by and g.id = any(l.ids))
  for no key update skip locked;
  get diagnostics mended = row_count;
  if mended > 0 then
    return next pg_catalog.format('gen_durable_leases: %s rows were inserted', mended);
  end if;
  -- At once what takes no key, and the others one by one, for another may have it.
  update gen_durable g
  set unique_guard = case when g.status::text = any(g.unique_scope::text[]) then g.unique_key end,
      failed_id = case when g.status::text = 'failed' then g.id end
  where g.id = any(array(
    select g.id
    from gen_durable g
    where (g.unique_guard, g.failed_id) is distinct from (
        case when g.status::text = any(g.unique_scope::text[]) then g.unique_key end,
        case when g.status::text = 'failed' then g.id end)
      and (g.unique_key is null or g.status::text <> all(g.unique_scope::text[]))
    for no key update skip locked));
  get diagnostics mended = row_count;
  for wrong in
    select g.id
    from gen_durable g
    where g.unique_key is not null and g.status::text = any(g.unique_scope::text[])
      and (g.unique_guard, g.failed_id) is distinct from (g.unique_key, case when g.status::text = 'failed' then g.id end)
    for no key update skip locked
  loop
    begin
      update gen_durable g
      set unique_guard = g.unique_key, failed_id = case when g.status::text = 'failed' then g.id end
      where g.id = wrong.id;
      mended := mended + 1;
    exception when unique_violation then
      return next pg_catalog.format('gen_durable: the unique key of instance %s is another''s: it stays as it is', wrong.id);
    end;
  end loop;
  if mended > 0 then
    return next pg_catalog.format('gen_durable: unique_guard and failed_id of %s rows were written', mended);
  end if;
end
$$;
