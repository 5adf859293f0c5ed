-- Nobody is told the version until this transaction ends: who connects meanwhile waits, and hears the new one. Before older_nodes.
lock table :"schema".gen_durable_schema in access exclusive mode
