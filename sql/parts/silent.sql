-- Whether node n has been silent for longer than its lease, whatever anybody has written into its row: no sum of it is out of range.
n.seen_at < clock_timestamp() - least(greatest(n.lease, interval '0'), interval '1000 years')
