-- A job that has not ended does not go on. $1 bigint job. One row: whether there is one.
select :"schema".gd_cancel_job($1::bigint) as cancelled
