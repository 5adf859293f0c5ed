-- Nobody vacuums the table or changes its definition until this transaction ends. Before drop_old_pick: waits only for those who do,
-- holding up nobody, and an autovacuum makes way.
lock table :"schema".gen_durable in share update exclusive mode
