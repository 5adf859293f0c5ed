-- What has been written since the statistics began, as the server tells, a second late: rows of instances. What the statement itself
-- reads is none of it. Time in us since 1970.
-- A row: when; how many rows were inserted, updated and deleted.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at_us, pg_stat_get_tuples_inserted(c.id) as inserted,
  pg_stat_get_tuples_updated(c.id) as updated, pg_stat_get_tuples_deleted(c.id) as deleted
from (select format('%I.gen_durable', :'schema')::regclass::oid as id) c
