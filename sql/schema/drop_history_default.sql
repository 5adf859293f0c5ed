-- From now on rows without history have null there, which libraries do not know that do not know the newest version. Behind
-- drop_old_pick, and under its lock.
alter table :"schema".gen_durable alter column history drop default
