-- Hands the ids of picked rows with a key on inside the transaction, as gd.keyed, and is true.
and (select set_config('gd.keyed', coalesce((select array_agg(p.id) from picked p where p.partition_key is not null), '{}')::text, true))
  is not null
