-- One row: whether there are instances.
select exists (select from :"schema".gen_durable) as found
