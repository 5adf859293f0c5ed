-- How long this transaction may wait for a row's lock, and each of its statements may take from here on.
-- $1 text, $2 text: times with unit; $2 empty: as long as before
select set_config('lock_timeout', $1::text, true),
  case when $2::text <> '' then set_config('statement_timeout', $2::text, true) end
