-- Holds the place of a migration that another branch brings: nothing is changed.
select :"schema".gd_note_version(21);
