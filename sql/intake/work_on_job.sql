-- Works off some of a job. $1 bigint job. One row, false: another transaction works on it, or it has ended.
select :"schema".gd_work_on_job($1::bigint) as worked
