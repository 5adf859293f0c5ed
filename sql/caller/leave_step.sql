-- Pins what the statements that write an outcome rely on, for the rest of a transaction in which a step has set what it
-- liked, and tells whether it is still that which enter_step has marked: one that was ended, and begun anew, is not.
-- $1 text what it is known by, $2 text the role that was in force before enter_step, $3 text statement timeout, with unit
-- One row: whether it is the same; its id, by which pg_xact_status knows it.
select pinned.same, pg_catalog.pg_current_xact_id()::pg_catalog.text as xact
from (
  select
    coalesce(pg_catalog.current_setting('gd.step', true) operator(pg_catalog.=) $1::pg_catalog.text, false) as same,
    pg_catalog.set_config('role', $2::pg_catalog.text, true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('statement_timeout', $3::pg_catalog.text, true),
    pg_catalog.set_config('lock_timeout', '0', true), -- a wait is a part of its statement
    pg_catalog.set_config('gd.trusted', 'all', true),
    pg_catalog.set_config('row_security', 'off', true),
    pg_catalog.set_config('transform_null_equals', 'off', true),
    case when pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'origin'
         then pg_catalog.set_config('session_replication_role', 'origin', true) end,
    -- As session has it: a plan that was made while the tables were empty stays an index plan.
    pg_catalog.set_config('enable_seqscan', 'off', true),
    pg_catalog.set_config('enable_indexscan', 'on', true), pg_catalog.set_config('enable_indexonlyscan', 'on', true),
    pg_catalog.set_config('enable_bitmapscan', 'off', true), pg_catalog.set_config('enable_tidscan', 'on', true),
    pg_catalog.set_config('enable_nestloop', 'on', true), pg_catalog.set_config('enable_hashjoin', 'on', true),
    pg_catalog.set_config('enable_mergejoin', 'on', true), pg_catalog.set_config('enable_sort', 'on', true),
    pg_catalog.set_config('enable_incremental_sort', 'on', true), pg_catalog.set_config('enable_material', 'on', true),
    pg_catalog.set_config('enable_hashagg', 'on', true), pg_catalog.set_config('from_collapse_limit', '8', true),
    pg_catalog.set_config('join_collapse_limit', '8', true),
    pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true), pg_catalog.set_config('jit', 'off', true)
  offset 0
) pinned
