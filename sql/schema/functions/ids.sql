-- Ids that others have are never answered as one's own: behind a promotion the sequences are raised, and where they stand
-- behind their rows all the same, that is told.

-- The timeline that is written now: that of the control file is the old one until the first checkpoint behind a promotion.
create function :"schema"._gd_timeline() returns bigint
language sql
begin atomic
  select cast(cast('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as bit(32)) as bigint);
end;

select setval(cast(quote_ident(:'schema') || '.gen_durable_timeline' as regclass), :"schema"._gd_timeline());

-- Raises both sequences of ids, if the timeline is not that of the last time: by one to two billions. A server that made 10,000
-- instances a second gave out fewer in a day, which is more than any standby is behind; the same at random, so that two
-- standbys that were promoted from the same past do not begin at the same id. Whoever comes meanwhile waits, for as long as
-- that takes. With its owner's rights: who may draw ids may not set sequences, or see what they are at. last_id: of an
-- instance, where they were raised.
create function :"schema"._gd_follow_timeline(out timeline bigint, out raised boolean, out last_id bigint)
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
declare
  further bigint := 1000000000 + floor(random() * 1000000000);
begin
  timeline := _gd_timeline();
  raised := false;
  if pg_sequence_last_value('gen_durable_timeline') = timeline then
    return;
  end if;
  perform pg_advisory_lock(hashtext('gen_durable timeline'), hashtext(current_schema()));
  begin
    if pg_sequence_last_value('gen_durable_timeline') is distinct from timeline then
      raised := true;
      last_id := setval('gen_durable_id_seq', nextval('gen_durable_id_seq') + further);
      perform setval('gen_durable_signals_id_seq', nextval('gen_durable_signals_id_seq') + further);
      perform setval('gen_durable_timeline', timeline);
    end if;
  exception when others or query_canceled then
    perform pg_advisory_unlock(hashtext('gen_durable timeline'), hashtext(current_schema()));
    raise;
  end;
  perform pg_advisory_unlock(hashtext('gen_durable timeline'), hashtext(current_schema()));
end
$$;

-- For gd_insert, which draws an id before it inserts.
create function :"schema"._gd_next_id(sequence regclass) returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform _gd_follow_timeline();
  return nextval(sequence);
end
$$;

-- Inserts that draw their ids themselves: once for each statement, before its first row. The library's sessions have drawn theirs
-- before, and have seen to it then.
create function :"schema"._gd_follow_before_insert() returns trigger
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform _gd_follow_timeline();
  return null;
end
$$;

create trigger gen_durable_timeline
before insert on :"schema".gen_durable
for each statement
when (current_setting('gd.trusted', true) is distinct from 'all')
execute function :"schema"._gd_follow_before_insert();

create trigger gen_durable_signals_timeline
before insert on :"schema".gen_durable_signals
for each statement
when (current_setting('gd.trusted', true) is distinct from 'all')
execute function :"schema"._gd_follow_before_insert();

-- The sequences that ids come from. A sequence that stands behind its rows gives out ids that others have: a logical replica has
-- none of its publisher's sequences, COPY and a partial restore leave them where they are, and somebody's setval may do anything.
-- With the owner's rights: who may draw ids may not see where sequences stand, nor the histories that are left of other instances.
-- sequence: null: none belongs to the ids. highest: of the instances, and of those in the ledger or erased, which a new one must not
-- inherit.
create function :"schema"._gd_id_sequences(out ids_of text, out sequence text, out stands_at bigint, out highest bigint)
returns setof record
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
begin
  for ids_of, highest in
    select 'gen_durable', greatest((select g.id from gen_durable g order by g.id desc limit 1),
                                   (select l.instance_id from gen_durable_ledger l order by l.instance_id desc limit 1),
                                   (select e.instance_id from gen_durable_erased e order by e.instance_id desc limit 1))
    union all
    select 'gen_durable_signals', (select s.id from gen_durable_signals s order by s.id desc limit 1)
    union all
    select 'gen_durable_jobs', (select j.id from gen_durable_jobs j order by j.id desc limit 1)
  loop
    sequence := pg_get_serial_sequence(pg_catalog.format('%I.%I', current_schema(), ids_of), 'id');
    stands_at := null;
    if sequence is not null then
      execute pg_catalog.format('select case when s.is_called then s.last_value else s.last_value - 1 end from %s s', sequence)
      into stands_at;
    end if;
    return next;
  end loop;
end
$$;

-- What is wrong with the ids of a table, or null.
create function :"schema"._gd_ids_fault(ids_of text) returns text
language sql
begin atomic
  select case
    when s.sequence is null
    then format('%s.id: no sequence belongs to it, so that nothing new gets an id: expected "generated always as identity"', s.ids_of)
    else format('%s.id: the sequence %s stands at %s, and the highest id there is %s: what is new would get ids that others have; '
                '"gdctl check --repair" moves the sequence behind them', s.ids_of, s.sequence, s.stands_at, s.highest) end
  from :"schema"._gd_id_sequences() s
  where s.ids_of = _gd_ids_fault.ids_of and (s.sequence is null or s.stands_at < s.highest);
end;

-- Raises it, where something new has no id, or one that another has.
create function :"schema"._gd_refuse_ids(ids_of text) returns text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  fault text := _gd_ids_fault(ids_of);
begin
  if fault is not null then
    raise exception using errcode = '55000', message = fault;
  end if;
  raise exception '%.id: another has the one that was drawn; try again', ids_of using errcode = '40001';
end
$$;

-- What can be seen to be wrong: sequences behind their rows, what is due or executes and is not where it is looked for, indexes that do
-- not hold what they say, and triggers that somebody has switched off. repairs: _gd_repair mends it.
create function :"schema"._gd_check(out fault text, out repairs boolean) returns setof record
language sql
begin atomic
  select f.fault, s.sequence is not null
  from :"schema"._gd_id_sequences() s
  cross join lateral :"schema"._gd_ids_fault(s.ids_of) f (fault)
  where f.fault is not null
  union all
  select f.fault, true from :"schema"._gd_list_faults() f (fault)
  union all
  select format('%s: the index %s is not valid: expected "reindex index %s"', i.indrelid::regclass, i.indexrelid::regclass,
                i.indexrelid::regclass), false
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and c.relname in ('gen_durable', 'gen_durable_due', 'gen_durable_leases', 'gen_durable_signals')
    and not i.indisvalid
  union all
  select format('%s: there is no unique index %s.%s, without which a key may be had twice', u.relation, :'schema', u.name), false
  from (values ('gen_durable', 'gen_durable_pkey'), ('gen_durable', 'gen_durable_unique'), ('gen_durable_signals', 'gen_durable_signals_pkey'),
               ('gen_durable_signals', 'gen_durable_signals_target_id_dedup_key_key'), ('gen_durable_ledger', 'gen_durable_ledger_pkey'))
    u (relation, name)
  where not exists (
    select from pg_index i
    join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and c.relname = u.name and i.indisunique)
  union all
  select format('%s: the trigger %s is switched off: expected "alter table %s enable trigger %I"', t.tgrelid::regclass, t.tgname,
                t.tgrelid::regclass, t.tgname), false
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  join pg_proc p on p.oid = t.tgfoid
  where c.relnamespace = to_regnamespace(quote_ident(:'schema')) and p.pronamespace = c.relnamespace and p.proname like '\_gd\_%'
    and t.tgenabled in ('D', 'R');
end;

-- Moves each sequence that stands behind its rows to the highest id. Never back: nobody draws until this transaction ends, and who
-- has drawn is waited for, as long as lock_timeout lets it.
create function :"schema"._gd_repair(out repaired text) returns setof text
language plpgsql
set search_path = :"schema", pg_temp
as $$
declare
  behind record;
  now_at record;
begin
  for behind in
    select s.ids_of, s.sequence from _gd_id_sequences() s where s.stands_at < s.highest
  loop
    execute pg_catalog.format('alter sequence %s as bigint', behind.sequence);
    select s.stands_at, s.highest into now_at from _gd_id_sequences() s where s.ids_of = behind.ids_of;
    if now_at.stands_at < now_at.highest then
      execute pg_catalog.format('alter sequence %s restart with %s', behind.sequence, now_at.highest + 1);
      repaired := pg_catalog.format('%s.id: the sequence %s was moved from %s to %s', behind.ids_of, behind.sequence,
                                    now_at.stands_at, now_at.highest);
      return next;
    end if;
  end loop;
  return query select x from _gd_list_again() x;
end
$$;
