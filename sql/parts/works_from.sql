-- The oldest library that may work with this schema, from its comment: asked once per statement, since it depends on no row.
select substring(obj_description(to_regclass(quote_ident(:'schema') || '.gen_durable'), 'pg_class')
                 from ', works with libraries from ([0-9]{1,9})$')::int
