-- Why an instance is where it is: one function tells that, whoever asks; and who holds its row.

-- Whether a transaction has not ended yet; also one behind a savepoint. What the snapshot ends with tells its upper half.
create function :"schema"._gd_runs(xid xid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  near bigint := cast(cast(pg_snapshot_xmax(pg_current_snapshot()) as text) as bigint);
  further bigint := (cast(cast(xid as text) as bigint) - near % 4294967296 + 3 * 2147483648) % 4294967296 - 2147483648;
begin
  return pg_xact_status(cast(cast(near + further as text) as xid8)) = 'in progress';
exception when others then -- it is the number of several, and there is no such transaction
  return false;
end
$$;

-- The transactions that have locked a row of which this is the xmax, or had: it, or, if it is a number of several, those. mode: of
-- one of several, as the server tells it; else it may merely refer to the row.
create function :"schema"._gd_lockers(locker xid) returns table (xid xid, mode text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if locker <> cast('0' as xid) then
    xid := locker;
    return next;
    return query select m.xid, m.mode from pg_get_multixact_members(locker) m;
  end if;
exception when others then -- it is no number of several
  return;
end
$$;

-- Whose transaction has locked an instance's row: a session, or one that is prepared (gid), which has none; in words, and what
-- to do about it. Not those of nodes that live: these are about to do something with it. No row: nobody, as far as can be seen.
-- A lock that was taken behind a savepoint tells no more than that it is one of those who have locked rows of the table.
create function :"schema"._gd_holder(id bigint) returns table (session int, gid text, told text, to_do text)
language sql stable
begin atomic
  with held as materialized (
    select l.*
    from pg_locks l
    where l.granted and (l.locktype = 'transactionid' or l.locktype in ('relation', 'advisory')
      and l.database = (select d.oid from pg_database d where d.datname = current_database()))
  ), locker as materialized (
    select k.xid, k.mode, g.tableoid as of_table,
      exists (select from held t where t.locktype = 'transactionid' and t.transactionid = k.xid) as told
    from :"schema".gen_durable g
    cross join lateral :"schema"._gd_lockers(g.xmax) k
    where g.id = _gd_holder.id and k.mode is distinct from 'keysh'
  ), who as materialized ( -- whoever locks a row has locked its table, too; of a number of several, it may be of other rows
    select distinct o.virtualtransaction, o.pid, k.mode
    from locker k
    join held o on o.locktype = 'relation' and o.relation = k.of_table and o.mode <> 'AccessShareLock'
      and o.pid is distinct from pg_backend_pid()
    where (k.told or :"schema"._gd_runs(k.xid)) and exists (
      select from held t
      where t.virtualtransaction = o.virtualtransaction and t.locktype = 'transactionid'
        and (not k.told or t.transactionid = k.xid))
  ), named as materialized (
    select w.pid, w.mode, p.gid, p.database, p.owner,
      case when w.pid is null
           then format('the prepared transaction %L of role %s, of %s,', left(p.gid, 255), p.owner,
                       :"schema"._gd_time_text(p.prepared))
           else format('a transaction of session %s%s', w.pid,
                       coalesce(' (' || nullif(left(a.application_name, 255), '') || ')', ''))
      end as told,
      exists (
        select
        from :"schema".gen_durable_nodes n
        join held o on o.locktype = 'advisory' and o.objsubid = 2
          and o.classid::bigint = hashtext('gen_durable node')::bigint & 4294967295
          and o.objid::bigint = hashtext(n.incarnation)::bigint & 4294967295
        where exists (select from jsonb_path_query(n.sessions, '$[*]') z where z ->> 'process' = w.pid::text)) as is_node
    from who w
    left join pg_prepared_xacts p on w.pid is null and exists (
      select from held t
      where t.virtualtransaction = w.virtualtransaction and t.locktype = 'transactionid' and t.transactionid = p.transaction)
    left join pg_stat_activity a on a.pid = w.pid
    where w.pid is not null or p.gid is not null
  ), counted as materialized (
    select count(*) as n, bool_and(x.is_node) as by_nodes, string_agg(x.told, ' or ' order by x.gid, x.pid) as told from named x
  )
  select case when c.n = 1 then x.pid end, case when c.n = 1 then x.gid end,
    case when c.n = 1 then x.told else 'one of these, ' || c.told || ',' end,
    case when c.n > 1
         then 'a lock behind a savepoint tells no more: wait for their ends, or end them (pg_terminate_backend, rollback prepared)'
         when x.gid is not null
         then format('it has no session, and stays, also when the server starts again, until that role or a superuser ends it in '
                || 'database %s (rollback prepared %L, or commit prepared)', x.database, left(x.gid, 255))
         else format('%swait for its end, or end it (select pg_terminate_backend(%s))',
                case when x.mode is null then 'unless it merely refers to it, ' else '' end, x.pid) end
  from counted c
  join named x on not c.by_nodes
  order by x.is_node, x.gid, x.mode
  limit 1;
end;

-- What is refused for that.
create function :"schema"._gd_held_text(id bigint) returns text
language sql stable
begin atomic
  select coalesce(
    (select format('target: %s has locked instance %s: %s', h.told, _gd_held_text.id, h.to_do)
     from :"schema"._gd_holder(_gd_held_text.id) h),
    'target: a transaction holds ' || coalesce('instance ' || _gd_held_text.id, 'it'));
end;

-- What gd_why tells, see there. Apart from it, so that names are bound when it is made.
create function :"schema"._gd_why(target bigint, key text, key_bytes bytea)
returns table (
  id bigint, fsm text, version int, step text, status text, cause text, sentence text, details jsonb, attempt int,
  crashes int, trials int, last_error text)
language sql stable
begin atomic
  with recursive address as materialized (
    select :"schema"._gd_address('target', _gd_why.target, _gd_why.key, _gd_why.key_bytes) as key
  ), me as materialized (
    select g.id, g.fsm, g.fsm_version, g.step, g.status::text as status, g.queue, g.priority, g.partition_key, g.unique_key,
      g.unique_guard, g.eligible_at, g.deadline, g.wake_reason, g.updated_at, g.attempt, g.crashes, g.trials,
      left(g.last_error, 1000) as last_error, g.lease_expires_at, g.awaits,
      left(array_to_string(array_prepend(g.awaits, g.awaits_also), '|'), 1000) as names,
      regexp_replace(g.locked_by, '/[^/]*$', '') as incarnation,
      'unique key ' || :"schema"._gd_key_text(substring(g.unique_key for 255)) as its_key,
      left(g.fsm, 255) || ' v' || g.fsm_version as machine, left(g.queue, 255) as in_queue,
      g.status = 'executing' and g.lease_expires_at < statement_timestamp() as lease_over,
      g.status = 'runnable' and g.eligible_at <= statement_timestamp() as is_due,
      g.status = 'awaiting_signal' and (g.wake_reason is not null or g.deadline <= statement_timestamp()) is true as overdue
    from :"schema".gen_durable g
    where g.id = (
      select case when a.key is null then _gd_why.target
                  else (select o.id from :"schema".gen_durable o where o.unique_guard = a.key) end
      from address a)
  ), held as materialized (
    select l.*
    from pg_locks l
    where l.granted and l.locktype = 'advisory'
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
  ), alive as materialized (
    select l.objid::bigint as lock
    from held l
    where l.objsubid = 2 and l.classid::bigint = hashtext('gen_durable node')::bigint & 4294967295
    union all -- a standby has no session of any node: who has been heard of within its lease lives, as far as can be seen there
    select hashtext(h.incarnation)::bigint & 4294967295
    from :"schema".gen_durable_nodes h
    where pg_is_in_recovery() and h.seen_at >= clock_timestamp() - least(greatest(h.lease, interval '0'), interval '1000 years')
  ), node as materialized (
    select n.incarnation, left(n.node, 255) as node, left(n.host, 255) as host, n.process, n.seen_at, n.queues, n.machines,
      n.sessions, n.refused, (hashtext(n.incarnation)::bigint & 4294967295 in (select a.lock from alive a)) is true as lives
    from :"schema".gen_durable_nodes n
  ), knowing as materialized ( -- nodes that live and have its machine's version; whether they also serve its queue
    select n.node, q.queues, m.queue = any(q.queues) as serves
    from me m
    cross join node n
    cross join lateral (
      select array(select left(x ->> 'name', 255) from jsonb_path_query(n.queues, '$[*]') x order by 1) as queues) q
    where n.lives and exists (
      select
      from jsonb_path_query(n.machines, '$[*]') k
      where k ->> 'name' = m.fsm and k ->> 'version' = m.fsm_version::text)
  ), level as ( -- the priorities of its partition key's rows, the most urgent first; a null ends them
    select (
      select g.priority
      from :"schema".gen_durable_due g
      where g.partition_key = (select m.partition_key from me m) and g.executes = (select false)
      order by g.priority
      limit 1) as priority
    union all
    select (
      select g.priority
      from :"schema".gen_durable_due g
      where g.partition_key = (select m.partition_key from me m) and g.executes = (select false) and g.priority > l.priority
      order by g.priority
      limit 1)
    from level l
    where l.priority is not null
  )
  select m.id, left(m.fsm, 255), m.fsm_version, left(m.step, 255), m.status, c.cause, s.sentence,
    jsonb_strip_nulls(jsonb_build_object(
      'since', case when m.status <> 'runnable' then m.updated_at when m.is_due then m.eligible_at end,
      'queue', m.in_queue, 'priority', m.priority, 'eligible_at', case when m.status = 'runnable' then m.eligible_at end,
      'node', case when m.status = 'executing' then n.node end,
      'host', n.host, 'process', n.process, 'node_lives', n.lives, 'node_seen_at', n.seen_at,
      'lease_until', m.lease_expires_at, 'awaits', case when c.cause in ('waits', 'overdue') then m.names end,
      'deadline', m.deadline, 'wake_reason', m.wake_reason, 'inbox', b.inbox, 'moves_to', r.to_steps, 'then', r.next_step,
      'instance', case when c.cause = 'behind' then f.id when c.cause in ('owed', 'failed') then o.id end,
      'partition_key', left(m.partition_key, 255),
      'session', case c.cause when 'key_locked' then k.pid else x.session end,
      'prepared', x.gid, 'refusal', y.why,
      'nodes', case when m.status = 'runnable' then v.serving end, 'before', case when c.cause = 'due' then w.before end,
      'served_versions', v.versions, 'paused_at', p.paused_at, 'paused_by', p.paused_by, 'paused_reason', p.reason,
      'also', (select jsonb_agg(a.cause) from unnest(h.causes) a (cause) where a.cause not in (c.cause, 'due')))),
    m.attempt, m.crashes, m.trials, m.last_error
  from me m
  -- who executes it
  left join lateral (
    select regexp_replace(m.incarnation, '/[^/]*$', '') as node, t.host, t.process, t.seen_at,
      (hashtext(m.incarnation)::bigint & 4294967295 in (select a.lock from alive a)) is true as lives
    from (select) one
    left join node t on t.incarnation = m.incarnation) n on m.status = 'executing'
  -- who could
  cross join lateral (
    select (select count(*) from node t where t.lives) as living,
      (select count(*) from knowing t) as knowing,
      (select count(*) from knowing t where t.serves) as n_serving,
      array(select distinct t.node from knowing t where t.serves order by 1 limit 5) as serving,
      (select string_agg(distinct t.node || ' (' || array_to_string(t.queues, ', ') || ')', ', ') from knowing t) as elsewhere,
      (select string_agg('v' || e.version, '|' order by e.version)
       from :"schema".gen_durable_machines e where e.fsm = m.fsm and e.served) as versions,
      (select e.last_served
       from :"schema".gen_durable_machines e where e.fsm = m.fsm and e.version = m.fsm_version) as last_served) v
  left join :"schema".gen_durable_queues p on p.queue = m.queue and p.paused_at is not null and m.status = 'runnable'
  -- who has its unique key
  left join lateral (
    select g.id from :"schema".gen_durable g where g.unique_guard = m.unique_key and g.id <> m.id limit 1) o
    on m.unique_guard is null
  -- who is first of its partition key
  left join lateral (
    (select g.id, true as executes
     from :"schema".gen_durable_due g
     where g.partition_key = m.partition_key and g.executes = (select true)
     limit 1)
    union all
    (select y.id, false
     from level l
     cross join lateral (
       select g.id
       from :"schema".gen_durable_due g
       where g.partition_key = m.partition_key and g.executes = (select false) and g.priority = l.priority
         and g.eligible_at <= statement_timestamp()
       order by g.eligible_at, g.id
       limit 1) y
     limit 1)
    limit 1) f on m.is_due
  -- who has its lock
  left join lateral (
    select l.pid, coalesce((
        select 'node ' || t.node || case when t.lives then '' else ', which is gone' end
        from node t
        where exists (select from jsonb_path_query(t.sessions, '$[*]') z where z ->> 'process' = l.pid::text)
        limit 1), (
        select nullif(a.application_name, '') from pg_stat_activity a where a.pid = l.pid), 'of another role') as whose,
      exists (
        select
        from node t
        where t.lives and exists (
          select from jsonb_path_query(t.sessions, '$[*]') z where z ->> 'process' = l.pid::text)) as lives
    from held l
    where l.objsubid = 1
      and l.classid::bigint = (hashtext(m.partition_key)::bigint >> 32) & 4294967295
      and l.objid::bigint = hashtext(m.partition_key)::bigint & 4294967295
    limit 1) k on m.is_due
  -- whose transaction has its row
  left join lateral :"schema"._gd_holder(m.id) x on m.status <> 'done'
  -- what the database has said to a node that was to do something with it
  left join lateral (
    select left(t.node, 255) as node, left(r ->> 'why', 1000) as why
    from node t
    cross join lateral jsonb_path_query( -- of before it was changed last it would be of another step
      t.refused, '$[*] ? (@.id == $id && @.at_us >= $us)',
      jsonb_build_object('id', m.id, 'us', :"schema"._gd_us(m.updated_at))) r
    where t.lives
    limit 1) y on m.status not in ('done', 'failed')
  -- how many come before it, of its machine and priority; a thousand are looked at
  left join lateral (
    select count(*) filter (where q.eligible_at < m.eligible_at or q.eligible_at = m.eligible_at and q.id < m.id) as before
    from (
      select g.eligible_at, g.id
      from :"schema".gen_durable_due g
      where (g.partition_key is null) is true and g.crashes < 2
        and hashtextextended(g.queue, hashtextextended(g.fsm, g.fsm_version)) = hashtextextended(m.queue, hashtextextended(m.fsm, m.fsm_version))
        and g.queue = m.queue and g.fsm = m.fsm and g.fsm_version = m.fsm_version and g.priority = m.priority
      order by g.eligible_at, g.id
      limit 1000) q) w on m.is_due and m.partition_key is null
  -- what lies in its inbox
  left join lateral (
    select jsonb_object_agg(i.name, i.n) as inbox, string_agg(format('%s (%s)', i.name, i.n), ', ' order by i.name) as text
    from (
      select left(z.name, 255) as name, count(*) as n
      from (
        select g.name from :"schema".gen_durable_signals g where g.target_id = m.id and g.consumed_at is null limit 1000) z
      group by 1
      order by 2 desc, 1
      limit 10) i) b on m.status = 'awaiting_signal'
  -- the signal that its step could not take: undecodable_signal says its number
  left join lateral (
    select g.id, format('mend signal %s (gdctl replace %s %s --payload JSON, or gdctl discard %s %s)', g.id, m.id, g.id, m.id, g.id) as text
    from (
      select s.id, s.name from :"schema".gen_durable_signals s where s.target_id = m.id and s.consumed_at is null order by s.id limit 1000) g
    where starts_with(m.last_error, format('signal %s (%s): ', g.name, g.id))
    limit 1) u on m.status in ('failed', 'runnable')
  -- where it may be moved
  left join lateral (
    select (select string_agg(z, '|' order by z collate "C")
            from jsonb_array_elements_text(
              case when jsonb_typeof(e.outside -> m.step -> 'to') = 'array' then e.outside -> m.step -> 'to' end) z) as to_steps,
      e.outside -> m.step ->> 'then' as next_step
    from :"schema".gen_durable_machines e
    where e.fsm = m.fsm and e.version = m.fsm_version) r on m.status = 'awaiting_signal' and m.awaits = ''
  -- all that holds of it, of a runnable row what comes first to be mended first
  cross join lateral (
    select array_remove(array[
      case when m.status = 'runnable' and not m.is_due then 'delayed' end,
      case when m.status = 'runnable' and v.living = 0 then 'no_node' end,
      case when m.status = 'runnable' and v.living > 0 and v.knowing = 0 then 'version_unknown' end,
      case when m.status = 'runnable' and v.knowing > 0 and v.n_serving = 0 then 'queue_unserved' end,
      case when p.queue is not null then 'queue_paused' end,
      case when x.told is not null then 'row_locked' end,
      case when y.why is not null and m.status <> 'executing' then 'refused' end,
      case when f.id <> m.id then 'behind' end,
      case when k.pid is not null and f.executes is not true then 'key_locked' end,
      case when m.status = 'runnable' and m.crashes >= 2 then 'suspect' end,
      case when m.status = 'runnable' then 'due' end], null) as causes) h
  cross join lateral (
    select case
      when m.status = 'done' then 'finished'
      when m.status = 'failed' then 'failed'
      when m.status = 'runnable' then h.causes[1]
      when o.id is not null and (m.lease_over or not n.lives or m.overdue) then 'owed' -- a sweep extends its lease as long
      when x.told is not null and (m.lease_over or m.overdue) then 'row_locked'
      when y.why is not null and (m.lease_over or m.overdue) then 'refused'
      when m.status = 'executing' and not n.lives then 'left_behind'
      when m.lease_over then 'lease_over'
      when m.status = 'executing' and y.why is not null then 'held_up'
      when m.status = 'executing' then 'executes'
      when m.overdue then 'overdue'
      when m.awaits = '' then 'rests'
      else 'waits' end as cause) c
  cross join lateral (
    select case
      when m.crashes >= 2 then format('; its process has ended %s times while it ran, so it may be what ends them', m.crashes)
      else '' end as suspected,
      case when v.living = 0 then ', but no node lives: start one' else ': wait' end as by_sweep,
      format('; or, if its process has surely ended, gdctl stop %s, then gdctl retry %s', m.id, m.id) as at_once,
      case m.status
        when 'runnable' then format('Instance %s is due since %s', m.id, :"schema"._gd_time_text(m.eligible_at))
        when 'executing' then format('Instance %s executes step %s on node %s%s, under a lease until %s', m.id, left(m.step, 255),
          left(n.node, 255), case when n.lives then '' else ', which is gone' end, :"schema"._gd_time_text(m.lease_expires_at))
        else format('Instance %s is to run since %s', m.id, :"schema"._gd_time_text(
          coalesce(case when m.wake_reason is null then m.deadline end, m.updated_at))) end as due) z
  cross join lateral (
    select case c.cause
      when 'finished' then format('Instance %s is done since %s, at step %s: there is nothing to do', m.id,
        :"schema"._gd_time_text(m.updated_at), left(m.step, 255))
      when 'failed' then format('Instance %s has failed at step %s at %s: %s; %s', m.id, left(m.step, 255),
        :"schema"._gd_time_text(m.updated_at), coalesce(nullif(m.last_error, ''), 'no reason was given'),
        coalesce('instance ' || o.id || ' has its unique key by now, and must leave it before it can be tried again',
          coalesce(u.text || ', and', 'when the cause is mended,') || ' let it try again (gdctl retry ' || m.id || ')'))
      when 'executes' then format('Instance %s executes step %s on node %s%s since %s, under a lease until %s which that node '
        || 'extends: wait, or take it away (gdctl stop %s)%s', m.id, left(m.step, 255), left(n.node, 255),
        coalesce(' (host ' || n.host || ', process ' || n.process || ')', ''), :"schema"._gd_time_text(m.updated_at),
        :"schema"._gd_time_text(m.lease_expires_at), m.id, z.suspected)
      when 'held_up' then format('Instance %s has executed step %s on node %s, and its outcome cannot be written now, as that node '
        || 'was told (%s): it is tried again, and refused when the step''s time limit, or 30 seconds, are over', m.id,
        left(m.step, 255), left(n.node, 255), y.why)
      when 'left_behind' then format('Instance %s executed step %s on node %s, which is gone: a node that lives makes it '
        || 'runnable again when its lease has ended, at %s%s%s%s', m.id, left(m.step, 255), left(n.node, 255),
        :"schema"._gd_time_text(m.lease_expires_at), z.by_sweep, z.at_once, z.suspected)
      when 'lease_over' then format('Instance %s executes step %s on node %s, which lives, but has let its lease end at %s: '
        || 'the next sweep makes it runnable again; look at that node if it goes on (gdctl nodes)%s', m.id, left(m.step, 255),
        left(n.node, 255), :"schema"._gd_time_text(m.lease_expires_at), z.suspected)
      when 'owed' then format('Instance %s is to run, but instance %s has its %s: it does when that one has left the key '
        || '(gdctl why %s)', m.id, o.id, m.its_key, o.id)
      when 'overdue' then format('%s: a sweep of a node that lives wakes it%s', z.due, z.by_sweep)
      when 'rests' then format('Instance %s rests at step %s since %s%s: %s', m.id, left(m.step, 255),
        :"schema"._gd_time_text(m.updated_at),
        coalesce(' until ' || :"schema"._gd_time_text(m.deadline) || coalesce(', and goes to ' || r.next_step || ' then', ''), ''),
        coalesce('move it (gdctl transition ' || m.id || ' STEP; to ' || r.to_steps || ')', 'its machine lets nobody move it'))
      when 'waits' then format('Instance %s waits for signal %s at step %s since %s, %s: send it (gdctl signal %s %s)%s', m.id,
        m.names, left(m.step, 255), :"schema"._gd_time_text(m.updated_at),
        coalesce('until ' || :"schema"._gd_time_text(m.deadline), 'without a deadline'), m.id,
        :"schema"._gd_shell_text(left(m.awaits, 255)),
        coalesce('; unread in its inbox: ' || b.text, ''))
      when 'delayed' then format('Instance %s is not due until %s%s: wait, or let it run (gdctl run-now %s)', m.id,
        :"schema"._gd_time_text(m.eligible_at),
        case when m.attempt > 0 then format(', after %s tries', m.attempt) else '' end
          || coalesce(' (' || nullif(left(m.last_error, 255), '') || ')', ''), m.id) || coalesce('; ' || u.text, '')
      when 'no_node' then format('%s, and no node lives: start one that has %s and serves queue %s', z.due, m.machine,
        m.in_queue)
      when 'version_unknown' then format('%s, and no node that lives has %s%s: start one that has it%s', z.due, m.machine,
        coalesce(', which was served last at ' || :"schema"._gd_time_text(v.last_served), ''),
        coalesce('; served are ' || v.versions || ' (gdctl upgrade ' || m.id || ' --to-version N)', ''))
      when 'queue_unserved' then format('%s, and no node that has %s serves its queue %s, but %s: start one that does, or move '
        || 'it (gdctl move %s --to QUEUE)', z.due, m.machine, m.in_queue, v.elsewhere, m.id)
      when 'queue_paused' then format('%s, and its queue %s is paused since %s%s%s: resume it (gdctl resume %s)', z.due,
        m.in_queue, :"schema"._gd_time_text(p.paused_at), coalesce(' by ' || p.paused_by, ''), coalesce(', ' || p.reason, ''),
        :"schema"._gd_shell_text(m.in_queue))
      when 'row_locked' then format('%s, and %s has locked its row: %s', z.due, x.told, x.to_do)
      when 'refused' then format('%s, and the database refuses that, as node %s was told (%s): mend what refuses it, maybe a '
        || 'trigger or a constraint of the application''s; it is tried again and again', z.due, y.node, y.why)
      when 'behind' then format('%s, and instance %s of its partition key %s %s: look at that one (gdctl why %s)', z.due, f.id,
        left(m.partition_key, 255), case when f.executes then 'executes' else 'comes first' end, f.id)
      when 'key_locked' then format('%s, and the lock of its partition key %s is held by session %s (%s)%s', z.due,
        left(m.partition_key, 255), k.pid, k.whose,
        case when k.lives then ', which lives, and lets go of it when its step has ended: wait; if that does not come, look at '
                               || 'that node (gdctl nodes)'
             else format(', where a step may still run that has lost its lease: wait, or end it (select '
                         || 'pg_terminate_backend(%s))', k.pid) end)
      when 'suspect' then format('%s, and its process has ended %s times while it ran, %s of them alone: nodes (%s) let few '
        || 'such instances begin at once, and in the end one alone: wait, or end it (gdctl stop %s)', z.due, m.crashes, m.trials,
        array_to_string(v.serving, ', '), m.id)
      else format('%s, and one of %s node%s picks it (%s)%s: wait; if it does not begin, their slots are taken (gdctl nodes)',
        z.due, v.n_serving, case when v.n_serving = 1 then '' else 's' end, array_to_string(v.serving, ', '),
        case when w.before > 0 then format(', behind %s%s others', case when w.before >= 999 then 'at least ' else '' end,
                                           w.before) else '' end) end
      || case when c.cause <> 'row_locked' and x.told is not null then format('; and %s has locked its row, so whoever '
                || 'does something with it waits: %s', x.told, x.to_do) else '' end as sentence) s;
end;

-- Why an instance is where it is, in one sentence, which also says what to do, and as data. It is named by its id, or by the
-- key that it has. No row: there is none; of one that was erased, that it was. Reads its row, of each other table as much as concerns
-- it, the nodes, and who lives.
-- cause: erased; finished, failed; executes, held_up (its outcome waits for what it carries), left_behind (its node is gone), lease_over; owed (its unique key is another's); waits,
-- overdue, rests; delayed, no_node, version_unknown, queue_unserved, queue_paused, row_locked, refused (by the database, for what a
-- node was to do with it), behind (another of its partition key), key_locked, suspect, due. details: what the sentence tells; also:
-- the other causes that hold. The plan is kept by the session:
-- it costs more to make than anything that it reads.
create function :"schema".gd_why(
  target bigint default null, key text default null, key_bytes bytea default null)
returns table (
  id bigint, fsm text, version int, step text, status text, cause text, sentence text, details jsonb, attempt int,
  crashes int, trials int, last_error text)
language plpgsql stable
set search_path = :"schema", pg_temp
set row_security = off
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return query select w.* from _gd_why(gd_why.target, gd_why.key, gd_why.key_bytes) w;
  if not found then
    return query
    select e.instance_id, left(e.fsm, 255), e.fsm_version, text '', text 'erased', text 'erased',
      pg_catalog.format('Instance %s ', e.instance_id) || _gd_erased_text(e.instance_id),
      pg_catalog.jsonb_build_object('since', e.at, 'erased_by', left(e.by, 255), 'reason', left(e.reason, 1000), 'was', e.status,
        'seq', e.seq),
      0, 0, 0, cast(null as text)
    from gen_durable_erased e
    where e.instance_id = gd_why.target;
  end if;
end
$$;
