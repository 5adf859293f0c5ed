select :"schema".gd_note_version(17);
