-- Of the row without id: hands the ids of picked rows with a key on, and is true.
where set_config('gd.keyed', coalesce((select array_agg(p.id) from picked p where p.partition_key is not null), '{}')::text, true)
  is not null
