-- Of insert_new and insert.
insert into :"schema".gen_durable (
-- include parts/new_columns.sql
)
overriding system value
-- include parts/new_rows.sql
