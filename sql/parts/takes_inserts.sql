-- A condition on nothing of a row, hence judged once: it ends the transaction with an error, MV002, if one of the versions takes
-- no more inserts, or is not the one that is pinned, where the insert names none.
-- $8 text[] fsm, $9 int[] version, $10 int[] the version that the insert names, or 0
(
  select :"schema"._gd_refuse('MV002', format(case when m.retired then 'version: %s v%s is retired'
                                                  else 'version: of %s, v%s is pinned' end, m.fsm, m.version))
  from unnest($8::text[], $9::int[], $10::int[]) as e (fsm, version, named)
  cross join lateral (
    select k.fsm, k.version, k.retired
    from :"schema".gen_durable_machines k
    where k.fsm = e.fsm and (k.version = e.version and k.retired or e.named = 0 and k.pinned and k.version <> e.version)
    offset 0) m
  limit 1
) is null
