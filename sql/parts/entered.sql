-- Of what an update returns, for parts/enter: what is new.
    g.seq, g.updated_at, g.fsm_version, g.step, g.attempt, g.history, case when g.history = 2 then g.state end as state
