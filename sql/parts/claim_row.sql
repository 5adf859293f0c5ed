-- Finds the instance of g, a row of gen_durable_due. It is locked first (of i, g): PostgreSQL keeps to that order, and leaves no lock on g
-- where somebody holds the instance, who would wait for this pick with whatever he makes of it. Those that strangers hold are left out.
-- (The comparison with an array keeps the join from being planned as another one than by each row's id.)
join :"schema".gen_durable i on i.id = any(array[g.id]) and i.status = 'runnable'
