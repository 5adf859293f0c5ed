-- Brings instances to another version of their machine, as an upgrade does, if they are as older_page has shown them. $1 bigint[] id, $2 bigint[]
-- seq, $3 int[] version, $4 text[] step there, $5 text[] state there, JSON, $6 text who
-- A row for each: its id, and what has become of it (answer, detail: see _gd_act). One that a stranger holds, or that has moved, stays.
select u.id, a.answer, a.detail
from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[]) u (id, seq, version, step, state)
cross join lateral :"schema"._gd_act('upgrade', u.id, null, null, null, null, $6::text, false, u.version, u.step, u.seq,
  payload => u.state::jsonb) a
