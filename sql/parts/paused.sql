-- The queues that operators have paused: a table that is empty, or nearly. Names that are longer than any of ours are cut.
  array(select left(q.queue, 1025) from :"schema".gen_durable_queues q where q.paused_at is not null order by q.queue limit 1000)
    as paused
