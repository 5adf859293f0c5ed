-- Works off a page of an upgrade whose lock this session has (lock_job). $1 bigint job, $2 bigint behind which the page began, $3 bigint
-- what it reaches, $4 bigint[] its instances, $5 bigint[] their seqs, $6 text[] what is wrong with each, or empty, $7 text[] the steps where
-- they stand then, $8 text[] the states that they get, JSON, or null: as they are; may be shorter
-- One row, false: it has not, another transaction works on the job, it has ended, or is elsewhere.
select case when current_setting('gd.job', true) = $1::bigint::text
  then :"schema"._gd_upgrade($1::bigint, $2::bigint, $3::bigint, $4::bigint[], $5::bigint[],
                            (select array_agg(nullif(f.fault, '') order by f.n) from unnest($6::text[]) with ordinality f (fault, n)),
                            $7::text[],
                            (select array_agg(s.state::jsonb order by s.n) from unnest($8::text[]) with ordinality s (state, n)))
  else false end as worked
