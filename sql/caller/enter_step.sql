-- Sets what a step finds in a transaction that is made for it, behind begin: for this transaction, whatever it sets then.
-- All names are qualified: the search path is not ours any more when the plan is made anew.
-- $1 text what the transaction is known by again, $2 text search path, $3 text role; empty: that of the session, $4 text
-- statement timeout, $5 text lock timeout, $6 text how long the session may be idle in the transaction, $7 text interval of
-- the check that the client still lives; times with unit
-- One row: the role that was in force.
with was as materialized (
  select pg_catalog.current_setting('role') as role
)
select was.role,
  pg_catalog.set_config('gd.step', $1::pg_catalog.text, true) as marked,
  pg_catalog.set_config('statement_timeout', $4::pg_catalog.text, true) as bounded,
  pg_catalog.set_config('lock_timeout', $5::pg_catalog.text, true) as waits,
  pg_catalog.set_config('idle_in_transaction_session_timeout', $6::pg_catalog.text, true) as rests,
  case when pg_catalog.current_setting('transaction_timeout', true) is not null -- from 17 on
       then pg_catalog.set_config('transaction_timeout', '0', true) end as lasts,
  pg_catalog.set_config('client_connection_check_interval', $7::pg_catalog.text, true) as checked,
  pg_catalog.set_config('tcp_keepalives_idle', '10', true) as kept,
  pg_catalog.set_config('tcp_keepalives_interval', '5', true) as kept_by,
  pg_catalog.set_config('tcp_keepalives_count', '3', true) as kept_for,
  pg_catalog.set_config('tcp_user_timeout', '30s', true) as cut,
  pg_catalog.set_config('search_path', $2::pg_catalog.text, true) as looks,
  case when $3::pg_catalog.text operator(pg_catalog.<>) ''
       then pg_catalog.set_config('role', $3::pg_catalog.text, true) end as acts -- the last: it may set less
from was
