-- A page of what the ledger has of an instance: as many entries as the limit, or fewer if they are long (8 MiB, and one more).
-- $1 bigint instance, or $5 bytea[] one unique key that it has now, else empty; $2 bigint: entries behind this one, or, the
-- newest first, before it; $3 int limit, $4 bool the newest first
-- A row for each, in that order. Time in us since 1970.
with recursive whose as materialized (
  select case when cardinality($5::bytea[]) = 0 then $1::bigint
              else (select o.id from :"schema".gen_durable o where o.unique_guard = ($5::bytea[])[1]) end as id
), page as (
  select 0 as n, 0::bigint as bytes, $2::bigint as seq
  union all
  select p.n + 1, p.bytes + coalesce(octet_length(e.state::text), 0) + coalesce(octet_length(e.metadata::text), 0), e.seq
  from page p
  cross join lateral (
    (
      select l.seq, l.state, l.metadata
      from :"schema".gen_durable_ledger l
      where l.instance_id = (select w.id from whose w) and l.seq > p.seq and not $4::bool
      order by l.seq
      limit 1
    )
    union all
    (
      select l.seq, l.state, l.metadata
      from :"schema".gen_durable_ledger l
      where l.instance_id = (select w.id from whose w) and l.seq < p.seq and $4::bool
      order by l.seq desc
      limit 1
    )
  ) e
  where p.n < $3::int and p.bytes < 8388608
)
select l.seq, :"schema"._gd_us(l.at) as at_us, l.fsm_version as version, l.outcome, l.from_step,
  l.to_step, l.attempt, l.token, l.by, l.wake_reason, l.reason, l.metadata::text as metadata, l.state::text as state, l.effects
from page p
cross join lateral (
  select l.*
  from :"schema".gen_durable_ledger l
  where l.instance_id = (select w.id from whose w) and l.seq = p.seq
  offset 0
) l
where p.n > 0
order by p.n
