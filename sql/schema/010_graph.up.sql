-- The transitions that the steps of a machine declare, null for a step that may go anywhere, and under "*", if there is a
-- handler that makes some, those that it may make whichever step has failed: {"pay": ["cancelled", "ship"], "ship": [],
-- "*": null}. Null as a whole: whoever made the machine known is older than this column.
alter table :"schema".gen_durable_machines add column transitions jsonb;

comment on table :"schema".gen_durable is 'gen_durable schema 10, works with libraries from 3';
