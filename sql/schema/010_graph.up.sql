-- The transitions that the steps of a machine declare, null for a step that may go anywhere, and under "*", if there is a
-- handler that makes some, those that it may make whichever step has failed: {"pay": ["cancelled", "ship"], "ship": [],
-- "*": null}. Null as a whole: whoever made the machine known is older than this column.
alter table :"schema".gen_durable_machines add column transitions jsonb;

-- Notes the version of the schema, and leaves from which library on it works: that is for activate to say.
create function :"schema".gd_note_version(version int) returns void
language plpgsql
set search_path = :"schema", pg_temp
as $$
begin
  execute format('comment on table gen_durable is %L',
                 regexp_replace(obj_description('gen_durable'::regclass, 'pg_class'), '[0-9]+', version::text));
end
$$;
select :"schema".gd_note_version(10);
