-- Takes, under the locks that the node has, the next row of each partition key whose row this very transaction has written: to the
-- others the key passes from a row that executes to a row that executes, and no snapshot shows it free. It relies on no lock for
-- that, and goes with the outcomes wherever they are written; the session that has the key's lock keeps it.
-- An outcome that was not applied leaves its row as it was, of an older transaction, and its key alone. So does one whose key has a
-- suspect next, or a row of another queue or machine, or one that a stranger has locked: the key is unlocked then, as ever.
-- $1 to $4 as in pick; $5 text[] fsm, $6 int[] version of the machines that this node knows; $7 bigint[] id of the rows written.
-- Returns what pick returns.
with written as materialized (
  select a.partition_key
  from :"schema".gen_durable a
  where a.id = any($7::bigint[]) and a.partition_key is not null and a.xmin = pg_current_xact_id()::xid
), head as materialized (
  select h.id, h.due
  from written k
-- include parts/key_first.sql
  where h.crashes < 2 and h.queue = $4::text
    and (h.fsm, h.fsm_version) in (select m.fsm, m.version from unnest($5::text[], $6::int[]) as m (fsm, version))
), claimed as materialized (
  select g.id, g.ctid as due, i.ctid as tuple
  from :"schema".gen_durable_due g
-- include parts/claim_row.sql
  where g.ctid = any(array(select h.due from head h))
    and not g.executes and g.eligible_at <= statement_timestamp()
  for no key update of i, g skip locked
),
-- include parts/taken.sql
-- include parts/kept.sql
-- include parts/pick_rows.sql
