-- Locks the instance of g, a row of gen_durable_due, behind that row: of what another pick has taken since the snapshot the row has gone,
-- and the instance, whose outcome is on its way, is not locked. Those that strangers hold are left out. (The comparison with an array
-- keeps the join from being planned as another one than by each row's id.)
join :"schema".gen_durable i on i.id = any(array[g.id]) and i.status = 'runnable'
