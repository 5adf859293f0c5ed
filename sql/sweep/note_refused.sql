-- What the database has refused to do with rows, as gd_why is to tell it. $1 text incarnation, $2 text JSON: [{"id": 7, "why": "...",
-- "since_us": 0}], the last so long ago. No row.
update :"schema".gen_durable_nodes n
set refused = coalesce((
  select jsonb_agg(jsonb_build_object('id', r -> 'id', 'why', r -> 'why',
    'at_us', :"schema"._gd_us(statement_timestamp()) - (r ->> 'since_us')::bigint))
  from jsonb_array_elements($2::text::jsonb) r), '[]')
where n.incarnation = $1::text
