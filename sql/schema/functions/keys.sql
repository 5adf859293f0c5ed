-- Unique keys are one namespace for all machines, and addresses: who has one is found by it, and under its row's lock found
-- again. Names inside the quotes are found in this schema alone, and written as _gd_move says.

-- The key that names an instance, if it is named by its key, as text or as bytes; null: by its id.
create function :"schema"._gd_address(what text, id bigint, key text, key_bytes bytea) returns bytea
language plpgsql stable
set search_path = :"schema", pg_temp
as $$
declare
  named bytea := coalesce(key_bytes, pg_catalog.convert_to(key, 'UTF8'));
begin
  if pg_catalog.num_nonnulls(id, key, key_bytes) > 1 then
    raise exception '%, key and key_bytes: expected one of them, got several', what using errcode = '22023';
  end if;
  if octet_length(named) not between 1 and 1024 then
    raise exception 'key: expected 1 to 1024 bytes, got %', octet_length(named) using errcode = '22023';
  end if;
  return named;
end
$$;

-- Locks the row of the instance that has a key. One that has left it while it was being locked is let be, and whoever has the
-- key now is looked for, five times at the most. Each of these statements has a snapshot of its own. wait: for strangers, as long
-- as lock_timeout lets it.
-- holder: null: nobody has the key. held: its row is locked, and has the key; if not, a stranger has locked it.
create function :"schema"._gd_hold_key(key bytea, wait boolean, out holder bigint, out held boolean)
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  held := false;
  for tries in 1 .. 5 loop
    select g.id into holder from gen_durable g where g.unique_guard = key;
    if not found then
      return;
    end if;
    if wait then
      perform from gen_durable g where g.id = holder for no key update;
    end if;
    perform from gen_durable g where g.id = holder and g.unique_guard = key for no key update skip locked;
    held := found;
    if not held and not wait then
      perform from gen_durable g where g.id = holder and g.unique_guard = key;
      exit when found;
    end if;
    exit when held;
  end loop;
end
$$;

-- Waits for it: the id of the instance that has a key, locked; null: nobody has.
create function :"schema"._gd_hold(key bytea) returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  h record;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'key: expected isolation level read committed, got %', current_setting('transaction_isolation')
      using errcode = '25000';
  end if;
  select x.holder, x.held into h from _gd_hold_key(key, true) x;
  if h.holder is not null and not h.held then
    raise exception 'target: one after the other is the instance %', _gd_named(null, key) using errcode = '55P03';
  end if;
  return h.holder;
end
$$;

-- Locks the targets of many signals, each named by its id or by its key. wait: for all that strangers hold, in id order.
-- targets: whom each one names, in the order given; null: nobody has the key. locked: the ids of those that are locked.
create function :"schema"._gd_hold_all(
  ids bigint[], keys bytea[], wait boolean, out targets bigint[], out locked bigint[])
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  if wait then
    perform from gen_durable g
    where g.id = any(pg_catalog.array_cat(ids, array(
      select o.id
      from pg_catalog.unnest(keys) k (key)
      cross join lateral (select g.id from gen_durable g where g.unique_guard = k.key offset 0) o)))
    order by g.id
    for no key update;
  end if;
  with named as materialized (
    select e.n, case when e.key is null then e.id else h.holder end as id, h.holder, h.held
    from rows from (pg_catalog.unnest(ids), pg_catalog.unnest(keys)) with ordinality e (id, key, n)
    cross join lateral _gd_hold_key(e.key, false) h
  ), by_id as materialized (
    select g.id from gen_durable g where g.id = any(ids) order by g.id for no key update skip locked
  )
  select
    array(select m.id from named m order by m.n),
    array(
      select x.id
      from (select b.id from by_id b union all select m.id from named m where m.held) x
      where x.id not in (select m.holder from named m where m.holder is not null and not m.held))
  into targets, locked;
end
$$;
