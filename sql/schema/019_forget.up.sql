-- For how long the dedup keys of consumed signals are remembered, by machine: null, for as long as the instance is there.
-- Libraries before this one leave the column alone, and forget nothing.
alter table :"schema".gen_durable_machines add column forget_dedup_after interval;

select :"schema".gd_note_version(19);
