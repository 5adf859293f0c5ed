-- What the pick before it in its transaction tells of itself as a whole (gd.picked), one row. Of pick_these and pick_suspects nothing
-- but now_us2000 and claimed.
-- keyed_rows: there are rows with a key; deeper: there may be more rows than were looked at, of which strangers had locked some, or
-- whose keys execute or are to be left alone; last_key: the key that this visit of keys ended with; now_us2000: when it was; claimed: how
-- many rows were, of which some may not have been updated (a trigger of somebody's returned null, or they have moved); suspects: there are
-- some, which pick_suspects takes; due_in_us: until a row that is the first of its machine is due, or null.
select x.keyed_rows, x.deeper, x.last_key, x.now_us2000, x.claimed, x.suspects, x.due_in_us
from json_to_record(current_setting('gd.picked')::json) as x (keyed_rows boolean, deeper boolean, last_key text, now_us2000 bigint,
  claimed bigint, suspects boolean, due_in_us bigint)
