-- Of a machine, no version is pinned but maybe one that can be. Behind machines_lock.
-- $1 text fsm, $2 int version that is to be pinned, or 0
update :"schema".gen_durable_machines m
set pinned = false
where m.fsm = $1::text and m.pinned and m.version <> $2::int
  and ($2::int = 0 or exists (
    select from :"schema".gen_durable_machines k
    where k.fsm = $1::text and k.version = $2::int and not k.retired))
