-- Of those that write ends: when g is to be deleted, which ends in h.status and is kept for h.keep_us; null: never. What came less
-- than h.resend_us ago, the instance or one of its signals, may come once more: until then it is there, to say so. A unique key
-- that is to last beyond the end keeps its instance.
      case when h.keep_us is null then null
           when h.keep_us >= h.resend_us then clock_timestamp() + h.keep_us * interval '1 microsecond'
           when h.keep_us > 0 or not h.status = any(g.unique_scope)
           then greatest(clock_timestamp() + h.keep_us * interval '1 microsecond',
                         h.resend_us * interval '1 microsecond' + greatest(g.inserted_at, (
                           select max(s.inserted_at) from :"schema".gen_durable_signals s where s.target_id = g.id))) end
