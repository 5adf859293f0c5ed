-- The rights of a role that looks, and changes nothing: all of gdctl that only reads.
-- psql -v schema=public -v role=ann -f read.sql
grant usage on schema :"schema" to :"role";
grant select on all tables in schema :"schema" to :"role";
grant select on all sequences in schema :"schema" to :"role";
