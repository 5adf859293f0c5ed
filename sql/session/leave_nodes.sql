-- A node has stopped. $1 text incarnation
delete from :"schema".gen_durable_nodes n
where n.incarnation = $1::text
