-- Releases locks of partition keys, each once, if this is the session that holds them.
-- $1 text[] key, $2 text[] session
select pg_advisory_unlock(hashtext(k.key))
from unnest($1::text[], $2::text[]) as k (key, session)
where k.session = current_setting('gd.session', true)
