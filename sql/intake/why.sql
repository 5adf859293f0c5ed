-- Why an instance is where it is. $1 bigint id, or $2 bytea[] one unique key that it has now, else empty
-- One row: see gd_why. No row: there is no such instance.
select w.id, w.fsm, w.version, w.step, w.status, w.cause, w.sentence, w.details::text as details, w.attempt, w.crashes,
  w.trials, w.last_error
from :"schema".gd_why(case when cardinality($2::bytea[]) = 0 then $1::bigint end, null, ($2::bytea[])[1]) w
