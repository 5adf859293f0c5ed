-- Rows without history have null in its place: each version of a row is eight bytes shorter, and has a column less to look at.
-- Libraries before this one take null for a history: until the schema is activated, the default stays (drop_history_default).
alter table :"schema".gen_durable alter column history drop not null;

select :"schema".gd_note_version(16);
