-- Of what an update returns, for parts/listed: what stands in gen_durable_due, but for the version.
    g.id, g.fsm, g.queue, g.partition_key, g.priority, g.eligible_at, g.crashes, g.status
