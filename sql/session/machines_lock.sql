-- One at a time compares its machines with those of the nodes that live, or says which are served; until the transaction
-- ends. Waits as long as lock_timeout lets it.
select pg_advisory_xact_lock(hashtext('gen_durable machines'), hashtext(:'schema'))
