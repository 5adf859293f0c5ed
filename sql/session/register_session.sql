-- Adds this session to those of its node, so that others can end it when the node is silent for longer than its lease: the
-- first one makes the node known. Sessions that have gone are taken off.
-- $1 text incarnation, $2 text node, $3 text host, $4 int process, $5 text version of the library, $6 bigint lease in us,
-- $7 int slots of all queues, $8 text queues (JSON), $9 text machines with their steps (JSON), $10 int the newest version of
-- the schema that the library knows, $11 text where its gateway is found, or empty
insert into :"schema".gen_durable_nodes (incarnation, node, host, process, library, lease, slots, queues, machines,
  knows, address, sessions)
select $1::text, $2::text, $3::text, $4::int, $5::text, $6::bigint * interval '1 microsecond', $7::int, $8::text::jsonb,
  $9::text::jsonb, $10::int, nullif($11::text, ''), jsonb_build_array(s.session)
from (
  select jsonb_build_object('process', a.pid, 'began', a.backend_start, 'role', a.usename) as session
  from pg_stat_activity a
  where a.pid = pg_backend_pid()) s
on conflict (incarnation) do update
  set seen_at = clock_timestamp(), machines = excluded.machines, knows = excluded.knows,
      address = excluded.address,
      sessions = excluded.sessions || coalesce((
        select jsonb_agg(s)
        from jsonb_path_query(gen_durable_nodes.sessions, '$[*]') s
        join pg_stat_activity a on a.pid::text = s ->> 'process' and a.pid <> pg_backend_pid()
          and to_jsonb(a.backend_start) #>> '{}' is not distinct from s ->> 'began'), '[]')
