-- Says that only libraries which know this version may work with it from now on. The version is the newest one.
update :"schema".gen_durable_schema set works_from = version
