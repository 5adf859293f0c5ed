-- Nobody makes instances until this transaction ends. Waits for those who do.
lock table :"schema".gen_durable in share row exclusive mode
