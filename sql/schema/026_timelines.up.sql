-- The server's timeline when ids were drawn last: a promotion, as a recovery to a point in time, begins another one, and may have
-- lost the last moments of the one before. Ids that were given out in those must not become those of other instances: whoever
-- was told one has it still. So the sequences are raised behind them, once, before anything is drawn. A sequence, too: what it is
-- set to is seen at once, whatever becomes of the transaction, and nobody waits for a stranger's.
create sequence :"schema".gen_durable_timeline minvalue 0;

-- The timeline that is written now: that of the control file is the old one until the first checkpoint behind a promotion.
create function :"schema".gd_timeline() returns bigint
language sql
begin atomic
  select cast(cast('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as bit(32)) as bigint);
end;

select setval(cast(quote_ident(:'schema') || '.gen_durable_timeline' as regclass), :"schema".gd_timeline());

-- Raises both sequences of ids, if the timeline is not that of the last time: by one to two billions. A server that made 10,000
-- instances a second gave out fewer in a day, which is more than any standby is behind; the same at random, so that two standbys
-- that were promoted from the same past do not begin at the same id. Whoever comes meanwhile waits, for as long as that takes. With
-- its owner's rights: who may draw ids may not set sequences, or see what they are at. last_id: of an instance, where they were raised.
create function :"schema".gd_follow_timeline(out timeline bigint, out raised boolean, out last_id bigint)
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
declare
  further bigint := 1000000000 + floor(random() * 1000000000);
begin
  timeline := gd_timeline();
  raised := false;
  if pg_sequence_last_value('gen_durable_timeline') = timeline then
    return;
  end if;
  perform pg_advisory_lock(hashtext('gen_durable timeline'), hashtext(current_schema()));
  begin
    if pg_sequence_last_value('gen_durable_timeline') is distinct from timeline then
      raised := true;
      last_id := setval('gen_durable_id_seq', nextval('gen_durable_id_seq') + further);
      perform setval('signals_id_seq', nextval('signals_id_seq') + further);
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
create function :"schema".gd_next_id(sequence regclass) returns bigint
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform gd_follow_timeline();
  return nextval(sequence);
end
$$;

select :"schema".gd_change('gd_insert', 'nextval(', 'gd_next_id(');

-- Inserts that draw their ids themselves: once for each statement, before its first row.
create function :"schema".gd_follow_before_insert() returns trigger
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  perform gd_follow_timeline();
  return null;
end
$$;

create trigger gen_durable_timeline
before insert on :"schema".gen_durable
for each statement
execute function :"schema".gd_follow_before_insert();

create trigger signals_timeline
before insert on :"schema".signals
for each statement
execute function :"schema".gd_follow_before_insert();

-- Whoever is told of another's instance may rely on it: where there are synchronous standbys, these have it by the commit.
create function :"schema".gd_rely_on(duplicate boolean) returns boolean
language sql
begin atomic
  select case when gd_rely_on.duplicate and current_setting('synchronous_standby_names') <> ''
         then pg_logical_emit_message(true, 'gen_durable', '') is not null
         else gd_rely_on.duplicate end;
end;

select :"schema".gd_change('gd_insert_row', '(g.id IS NULL)', 'gd_rely_on((g.id IS NULL))');

select :"schema".gd_note_version(26);
