-- Lets nothing begin in a queue. $1 text queue, $2 text why, or empty, $3 text who, or empty: the user, $4 bool whether a queue
-- that nobody has is meant. What is refused is an error: see gd_pause. One row, without a meaning.
select from :"schema".gd_pause($1::text, nullif($2::text, ''), nullif($3::text, ''), $4::bool)
