-- Whether g's unique key, free while g is as it is, would be taken again if g became runnable: then another row may have it.
g.unique_key is not null and 'runnable' = any(g.unique_scope) and not g.status = any(g.unique_scope)
