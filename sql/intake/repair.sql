-- Mends what can be mended. A row for each: what was done.
select r.repaired
from :"schema"._gd_repair() r (repaired)
