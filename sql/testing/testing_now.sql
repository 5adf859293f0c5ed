-- For tests: the database's clock, in us since the epoch.
select (extract(epoch from statement_timestamp()) * 1000000)::bigint as now
