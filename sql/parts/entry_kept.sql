-- Of flush_keep and flush_erase: the outcomes.
entry as (
  select *, $17::bigint as resend_us
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
              $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[])
    as e (id, token, step, state, outcome, result, delay_us, awaits, timeout_us, until_us, error, awaits_also, failure,
      metadata, keep_us)
  order by e.id
),
