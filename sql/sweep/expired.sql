-- Instances whose time is over, a page in the order in which it was. Locks nothing: erase judges again.
-- $1 int limit, $2 bigint where the last page ended, in us since 2000, and $3 bigint the id there
-- A row for each, as many as the limit: there may be more: its id, when its time was over, in us since 2000.
select g.id, g.expires_at as at_us2000
from :"schema".gen_durable g
where g.expires_at is not null and g.expires_at < statement_timestamp() and g.status in ('done', 'failed')
  and (g.expires_at, g.id) > (timestamptz '2000-01-01 00:00Z' + $2::bigint / 1000000 * interval '1 second'
                                + $2::bigint % 1000000 * interval '1 microsecond', $3::bigint)
order by g.expires_at, g.id
limit $1::int
