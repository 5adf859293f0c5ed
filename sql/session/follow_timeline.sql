-- Raises the sequences of ids if the server has another timeline than when they were drawn last: it was promoted, or recovered,
-- and may have lost ids that it has given out. On each new control connection: a session never outlives a promotion, since
-- none of ours is to a standby. Those that draw ids do the same.
-- One row: the timeline, whether this has raised them, and to which id of instances.
select f.timeline, f.raised, coalesce(f.last_id, 0) as last_id
from :"schema"._gd_follow_timeline() f
