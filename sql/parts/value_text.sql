-- Of x.value, or null: as text; nothing of it, if it takes more than $2 bytes, or if its numbers alone would print so many.
      case when pg_column_size(x.value #> '{}') > 4 * $2::bigint then ''
           when (select sum(case when abs(v::numeric) >= 1e400 then 131072 + scale(v::numeric)
                                 when scale(v::numeric) > 400 then 402 + scale(v::numeric)
                                 else length(v::text) end)
                 from jsonb_array_elements(
                   jsonb_path_query_array(x.value, 'strict $.** ? (@.type() == "number")')) v) > $2::bigint then ''
           else x.value::text end
