-- The ends of processes that g is charged with, as far as they are remembered, with room for one more.
coalesce(g.crashed_in[greatest(cardinality(g.crashed_in) - least(g.crashes, 31), 0) + 1:], '{}')
