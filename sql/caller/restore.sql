-- Sets what borrow and lock_timeout have changed as it was.
-- $1 text search path, $2 text lock timeout, $3 text how far triggers trust it
select set_config('search_path', $1::text, true), set_config('lock_timeout', $2::text, true),
  set_config('gd.trusted', $3::text, true)
