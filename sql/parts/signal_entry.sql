-- Of signal and signal_named: what they know of each signal, and of its target. Whose targets these are stands behind this.
  select e.n, e.target_id, e.name, e.payload, e.dedup_key, e.traceparent, g.status, g.awaits, g.awaits_also, g.queue,
    e.target_id in (select unnest(current_setting('gd.locked')::bigint[])) as locked,
    nextval(pg_get_serial_sequence(quote_ident(:'schema') || '.gen_durable_signals', 'id')::regclass) as id,
    count(*) over (partition by e.target_id order by e.n
      rows between unbounded preceding and unbounded following) as of_target -- in this order ids are drawn
