-- Says that only libraries which know this version may work with it from now on. The version is the newest one.
-- Before drop_old_pick: waits only for vacuums and for those who change the table, holding up nobody, and an autovacuum makes way.
comment on table :"schema".gen_durable is 'gen_durable schema 27, works with libraries from 27'
