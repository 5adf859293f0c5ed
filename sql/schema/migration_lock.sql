-- Lets one migrator in at a time; held until the transaction ends.
select pg_advisory_xact_lock(hashtext('gen_durable migration'), hashtext(:'schema'))
