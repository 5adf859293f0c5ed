-- Nothing: the number is another change's.
select :"schema".gd_note_version(17);
