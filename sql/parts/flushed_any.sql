-- The answer of flush and flush_ledger.
select null::bigint as id, array_agg(a.id) as applied, null::bigint as holder from applied a
union all
select h.id, null, h.holder from checked h where not h.fenced or h.holder is not null
