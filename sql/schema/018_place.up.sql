select :"schema".gd_note_version(18);
