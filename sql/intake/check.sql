-- What can be seen to be wrong in the schema, and whether `repair` mends it.
select c.fault, c.repairs
from :"schema"._gd_check() c
