-- Sets what our statements rely on in a session that is somebody else's; restore sets it as it was. All names are
-- qualified: the search path is still the other's.
-- One row: the transaction's isolation level, and what the settings were: search path, lock timeout, how far triggers trust it
-- (gd.trusted, functions/due.sql).
with was as materialized (
  select pg_catalog.current_setting('transaction_isolation') as isolation,
    pg_catalog.current_setting('search_path') as search_path,
    pg_catalog.current_setting('lock_timeout') as lock_timeout,
    pg_catalog.current_setting('gd.trusted', true) as trusted
)
select was.isolation, was.search_path, was.lock_timeout, coalesce(was.trusted, '') as trusted,
  pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true) as pinned,
  pg_catalog.set_config('gd.trusted', 'all', true) as trusts
from was
