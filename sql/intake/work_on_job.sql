-- Works off some of a job whose lock this session has (lock_job). $1 bigint job. One row, false: it has not, another transaction works on
-- the job, or it has ended.
select case when current_setting('gd.job', true) = $1::bigint::text then :"schema"._gd_work_on_job($1::bigint)
            else false end as worked
