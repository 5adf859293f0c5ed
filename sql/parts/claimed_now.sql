-- Of a pick's summary: how many rows it has claimed, and when.
'claimed', (select count(*) from claimed),
'now_us2000', (extract(epoch from statement_timestamp()) * 1000000)::bigint - 946684800000000
