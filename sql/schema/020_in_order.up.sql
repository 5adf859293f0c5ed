-- gd_in_step reads its page in the order of its index: without that, one with a status that seems to be rare reads and sorts all
-- instances in the step.
alter function :"schema".gd_in_step(text, text, text, bigint, int) set enable_seqscan = off;
alter function :"schema".gd_in_step(text, text, text, bigint, int) set enable_bitmapscan = off;
alter function :"schema".gd_in_step(text, text, text, bigint, int) set enable_sort = off;
alter function :"schema".gd_in_step(text, text, text, bigint, int) set jit = off;

select :"schema".gd_note_version(20);
