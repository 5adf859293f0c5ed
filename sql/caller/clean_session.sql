-- Takes away what a step may have left in a session beside its transaction: settings, a role, cursors, locks, temporary
-- tables, and statements that it has prepared. Those of the library stay, for their plans: their names begin with gd_.
-- Not within a transaction that is to be undone.
do $clean$
declare
  prepared pg_catalog.text;
begin
  reset session authorization;
  reset role;
  reset all;
  execute 'close all';
  unlisten *;
  discard temp;
  discard sequences;
  perform pg_catalog.pg_advisory_unlock_all();
  foreach prepared in array array(
    select p.name
    from pg_catalog.pg_prepared_statements p
    where not pg_catalog.starts_with(p.name, 'gd_'))
  loop
    execute pg_catalog.format('deallocate %I', prepared);
  end loop;
end
$clean$
