-- Ends the sessions of nodes that have lost a lease and still hold the lock of that row's partition key: stopped or cut,
-- they would keep the key from everybody (spec section 7). A row for each session: its process.
-- $1 text[] partition key, $2 text[] the row's lease token, as it was
select a.pid, pg_terminate_backend(a.pid)
from (
  select distinct l.pid
  from unnest($1::text[], $2::text[]) as e (key, token)
  join pg_locks l on l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and ((l.classid::bigint << 32) | l.objid::bigint) = hashtext(e.key)
  join pg_database d on d.oid = l.database and d.datname = current_database()
  join pg_stat_activity a on a.pid = l.pid
  where l.pid <> pg_backend_pid()
    and a.application_name like 'gen_durable/%'
    and split_part(a.application_name, ' ', 1)
      = 'gen_durable/' || (string_to_array(e.token, '/'))[array_length(string_to_array(e.token, '/'), 1) - 1]
) a
