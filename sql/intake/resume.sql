-- What is due in a queue begins again. $1 text queue. One row: whether it was paused.
select :"schema".gd_resume($1::text) as resumed
