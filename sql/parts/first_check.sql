-- When a lease is looked at for the first time: most of what is picked has ended soon (see end_leases).
clock_timestamp() + interval '200 milliseconds'
