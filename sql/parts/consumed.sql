-- Of those that write outcomes: of the signals in $5, which these have consumed, those of applied ones go. What has a dedup
-- key is remembered by it.
gone as (
  delete from :"schema".gen_durable_signals s
  where s.id = any($5::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is null end
), remembered as (
  update :"schema".gen_durable_signals s
  set consumed_at = clock_timestamp(), payload = '{}'
  where s.id = any($5::bigint[]) and case when s.target_id in (select id from applied) then s.dedup_key is not null end
)
