drop function :"schema".gd_transition(bigint, text, text, bigint, jsonb, jsonb, text, text);
drop function :"schema".gd_move(bigint, text, text, bigint, jsonb, jsonb, text, text, boolean);
drop function :"schema".gd_move_conflict(bigint, text, bigint, text, text, bigint);
drop function :"schema".gd_enter_transition(
  bigint, bigint, timestamptz, int, text, text, text, text, jsonb, jsonb);

comment on table :"schema".gen_durable is 'gen_durable schema 12, works with libraries from 3';
