-- Makes the commit of this transaction wait for a synchronous standby, where there are any, as one that has written does. What has
-- been read is then there, too: the commit of another may be seen before that, if its wait was cancelled or its server restarted.
case when current_setting('synchronous_standby_names') <> ''
then pg_logical_emit_message(true, 'gen_durable', '') end
