-- Pins what a connection of ours relies on, whatever the role or the database has set, and tells what it is connected to. What this
-- statement itself relies on is in the start packet. synchronous_commit is left as it is: nobody else lowers it.
-- A pinned plan setting: with sequential scans off, a generic plan that was made while the tables were
-- empty stays an index plan when they have grown.
-- $1 text: statement timeout, with unit
-- $2 text: lock timeout, with unit
-- $3 text: interval of the check that the client still lives, with unit
-- $4 int: the backend process that the connection was told of
-- $5 int: that of the connection that it follows, or 0
-- No row: that is not this one. A pooler stands between, and nothing is changed in a session that is not ours.
-- One row: whether the server is a standby, which nothing makes writable; its encoding; whether the session before this one is still
-- there, and waits for a standby: the server ends none that do, however long their client has gone.
select
  pg_is_in_recovery() as read_only,
  current_setting('server_encoding') as encoding,
  exists (select from pg_catalog.pg_stat_activity a where a.pid = $5::int and a.wait_event = 'SyncRep') as waits
from (
  select
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('default_transaction_deferrable', 'off', false),
    set_config('default_transaction_read_only', 'off', false),
    set_config('client_encoding', 'UTF8', false),
    set_config('client_min_messages', 'warning', false), -- a commit that has not waited for a standby is only warned of
    set_config('timezone', 'UTC', false),
    set_config('datestyle', 'ISO', false),
    set_config('search_path', 'pg_catalog', false),
    set_config('row_security', 'off', false), -- an error in the place of rows that are missing
    set_config('quote_all_identifiers', 'off', false),
    set_config('standard_conforming_strings', 'on', false),
    set_config('transform_null_equals', 'off', false), set_config('array_nulls', 'on', false),
    set_config('intervalstyle', 'postgres', false), set_config('extra_float_digits', '1', false), set_config('bytea_output', 'hex', false),
    set_config('exit_on_error', 'off', false),
    -- Where it is in force, a role without the right to end that is refused: constraints and triggers would not hold.
    case when current_setting('session_replication_role') <> 'origin'
         then set_config('session_replication_role', 'origin', false) end,
    case when current_setting('transaction_timeout', true) is not null -- from 17 on
         then set_config('transaction_timeout', '0', false) end,
    set_config('statement_timeout', $1::text, false),
    set_config('lock_timeout', $2::text, false),
    set_config('idle_in_transaction_session_timeout', $1::text, false),
    set_config('idle_session_timeout', '0', false),
    set_config('client_connection_check_interval', $3::text, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '30s', false),
    set_config('gd.session', gen_random_uuid()::text, false),
    set_config('gd.trusted', 'all', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_indexscan', 'on', false), set_config('enable_indexonlyscan', 'on', false),
    set_config('enable_bitmapscan', 'off', false), set_config('enable_tidscan', 'on', false),
    set_config('enable_nestloop', 'on', false), set_config('enable_hashjoin', 'on', false), set_config('enable_mergejoin', 'on', false),
    set_config('enable_sort', 'on', false), set_config('enable_incremental_sort', 'on', false),
    set_config('enable_material', 'on', false), set_config('enable_hashagg', 'on', false),
    set_config('from_collapse_limit', '8', false), set_config('join_collapse_limit', '8', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('jit', 'off', false)
  where pg_backend_pid() = $4::int
) pinned
