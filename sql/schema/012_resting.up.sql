-- What of a machine's steps concerns those outside: where they may move an instance from there, and whether one rests there,
-- for how long at the most and what then, or ends: {"submitted": {"to": ["cancelled", "paid"], "rests": true, "ends": false,
-- "after_us": 60000000, "then": "expired"}}. Steps without any of that are not in it. Null as a whole: whoever made the machine
-- known is older than this column.
alter table :"schema".gen_durable_machines add column outside jsonb;

select :"schema".gd_note_version(12);
