-- What has become of a transaction whose connection was lost at its end.
-- $1 text its id
-- One row: committed, aborted, in progress; null: the server has forgotten it.
select pg_xact_status($1::text::xid8) as status
