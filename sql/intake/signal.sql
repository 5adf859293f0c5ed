-- Stores signals to the targets locked by lock_targets, and wakes those that wait for one of them. Its snapshot is
-- younger than the locks, so that what it reads of a target is what it is.
-- Membership is asked as a value ("is true", or inside a case): the planner makes a hash of the list then. As a plain
-- condition it becomes a join, which a generic plan, expecting ten rows, does in nested loops.
-- $1 text[] name, $2 text[] payload (JSON), $3 text[] dedup key, or null, $4 int inbox limit, $5 text[] traceparent, or null, $6 bigint[] target id
-- A row for each signal, in the order given: answer: accepted, duplicate, no_such_target, target_finished,
-- inbox_full, or locked (by a stranger: try again); the queue of a target that it woke; the queue of one that
-- was runnable, which a pick may have passed over because it was locked here.
with entry as materialized (
-- include parts/signal_entry.sql
  from unnest($6::bigint[], $1::text[], $2::text[], $3::text[], $5::text[]) with ordinality
-- include parts/signal_stored.sql
