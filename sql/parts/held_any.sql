-- Of flush and flush_ledger: what they know of the rows that they have locked. Which columns more stands behind this.
select e.*, (g.locked_by = e.token and g.status = 'executing') is true as fenced,
  g.tuple, g.unique_key, g.unique_scope,
  cast(case e.outcome when 'await' then 'awaiting_signal' when 'park' then 'awaiting_signal' when 'done' then 'done'
                      when 'finish' then 'done' when 'stop' then 'failed' else 'runnable' end
       as :"schema".durable_status) as status,
  e.outcome in ('next', 'park', 'finish', 'later') as moves
