-- Of a pick's summary: until one of the rows is due that are the first of their machine. Whoever has written infinity there is
-- not waited for.
'due_in_us', (
  select (extract(epoch from min(p.eligible_at) - statement_timestamp()) * 1000000)::bigint
  from present p
  where p.eligible_at > statement_timestamp() and p.eligible_at < statement_timestamp() + interval '1 day'
)
