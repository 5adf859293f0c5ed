-- The oldest library that may work with this schema: asked once per statement, since it depends on no row.
select s.works_from from :"schema".gen_durable_schema s
