-- Ends the transaction with an error, MV001, if a node that lives has other steps under the name and version of a machine,
-- declares other transitions, or opens others to those outside. Behind machines_lock, whose holders have committed what they
-- serve. The order of steps does not matter. A node of a library that does not tell its transitions is compared by its steps
-- alone.
-- $1 text incarnation of the node that asks, $2 text[] fsm, $3 int[] version, $4 text[] steps, joined by commas, $5 text[]
-- transitions, "a -> b" or, of a step that goes to none, "a -> (nowhere)", and what concerns those outside, "a -> b (outside)",
-- "a rests", "a ends", joined by commas
select :"schema"._gd_refuse('MV001', format(
  'machine %s v%s has other steps or transitions at a node that lives, %s (host %s, process %s): only here %s, only there '
  '%s; give the machine that has changed a new version, or stop that node first',
  x.fsm, x.version, left(x.node, 255), left(x.host, 255), x.process,
  coalesce((select string_agg(s, '|') from unnest(x.mine) s where not s = any(x.theirs)), 'none'),
  coalesce((select string_agg(left(s, 520), '|') from unnest(x.theirs) s where not s = any(x.mine)), 'none')))
from (
  select m.fsm, m.version, n.node, n.host, n.process,
    string_to_array(m.steps, ',') || case when k ? 'transitions' then string_to_array(m.transitions, ',') end as mine,
    array(select s #>> '{}' from jsonb_path_query(k, '$.steps[*]') s)
      || array(select s #>> '{}' from jsonb_path_query(k, '$.transitions[*]') s) as theirs
  from unnest($2::text[], $3::int[], $4::text[], $5::text[]) as m (fsm, version, steps, transitions)
  join :"schema".gen_durable_nodes n on n.incarnation <> $1::text and
-- include parts/lives.sql
  cross join lateral jsonb_path_query(n.machines, '$[*]') k
  where k ->> 'name' = m.fsm and k ->> 'version' = m.version::text) x
where not (x.mine @> x.theirs and x.theirs @> x.mine)
limit 1
