-- Of x.value, or null: what its numbers print, at the most.
        select sum(case when abs(v::numeric) >= 1e400 then 131072
                        when scale(v::numeric) > 400 then scale(v::numeric) else 400 end)
        from jsonb_array_elements(jsonb_path_query_array(x.value, 'strict $.** ? (@.type() == "number")')) v
