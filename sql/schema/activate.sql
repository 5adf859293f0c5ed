-- Says that only libraries which know this version may work with it from now on. The version is the newest one.
-- Before drop_old_pick: waits only for vacuums and for those who change the table, holding up nobody, and an autovacuum makes way.
lock table :"schema".gen_durable in share update exclusive mode;
update :"schema".gen_durable_schema set works_from = version
