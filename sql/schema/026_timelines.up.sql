-- The server's timeline when ids were drawn last: a promotion, as a recovery to a point in time, begins another one, and may have
-- lost the last moments of the one before. Ids that were given out in those must not become those of other instances: whoever
-- was told one has it still. So the sequences are raised behind them, once, before anything is drawn. One row.
create table :"schema".gen_durable_timeline (
  one       boolean primary key default true check (one),
  timeline  bigint not null,
  raised_at timestamptz,
  first_id  bigint -- of instances, since then
);

-- The timeline that is written now: that of the control file is the old one until the first checkpoint behind a promotion.
create function :"schema".gd_timeline() returns bigint
language sql
begin atomic
  select cast(cast('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as bit(32)) as bigint);
end;

-- Raises both sequences, if the timeline is not that of the last time: by one to two billions. A server that made 10,000
-- instances a second gave out fewer in a day, which is more than any standby is behind; the same at random, so that two standbys that
-- were promoted from the same past do not begin at the same id. Whoever comes meanwhile waits for the row's lock, and draws
-- behind. With its owner's rights: who may draw ids may not set sequences.
create function :"schema".gd_follow_timeline(out timeline bigint, out first_id bigint, out raised boolean)
language plpgsql security definer
set search_path = :"schema", pg_temp
as $$
declare
  further bigint := 1000000000 + floor(random() * 1000000000);
  was bigint;
begin
  timeline := gd_timeline();
  raised := false;
  select t.timeline, t.first_id into was, gd_follow_timeline.first_id from gen_durable_timeline t;
  if was = gd_follow_timeline.timeline then
    return;
  end if;
  select t.timeline, t.first_id into was, gd_follow_timeline.first_id from gen_durable_timeline t for no key update;
  if was = gd_follow_timeline.timeline then
    return;
  end if;
  raised := true;
  first_id := setval('gen_durable_id_seq', nextval('gen_durable_id_seq') + further) + 1;
  perform setval('signals_id_seq', nextval('signals_id_seq') + further);
  insert into gen_durable_timeline (timeline, raised_at, first_id)
  values (gd_follow_timeline.timeline, clock_timestamp(), gd_follow_timeline.first_id)
  on conflict (one) do update
    set timeline = excluded.timeline, raised_at = excluded.raised_at, first_id = excluded.first_id;
end
$$;

insert into :"schema".gen_durable_timeline (timeline) values (:"schema".gd_timeline());

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

select :"schema".gd_note_version(26);
