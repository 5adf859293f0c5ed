-- Another way: a role that may call three functions, and has no right to any table. They then run with the rights of their
-- owner, for all whom the owner lets call them, and find names in the schema alone, where nobody else may create anything. A
-- migration that makes a function anew takes that back, so run this again behind each. Leave out what the role does not need.
-- psql -v schema=public -v role=app -f functions.sql
begin;
grant usage on schema :"schema" to :"role";
revoke create on schema :"schema" from public;
alter function :"schema".gd_insert security definer;
alter function :"schema".gd_signal security definer;
alter function :"schema".gd_transition security definer;
revoke execute on function :"schema".gd_insert, :"schema".gd_signal, :"schema".gd_transition from public;
grant execute on function :"schema".gd_insert, :"schema".gd_signal, :"schema".gd_transition to :"role";
commit;
