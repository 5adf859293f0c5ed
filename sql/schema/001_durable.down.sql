-- Back to nothing. Tables call functions, and functions bind the names of tables.
alter table :"schema".gen_durable alter column traceparent drop default;
alter table :"schema".signals alter column traceparent drop default;

drop trigger gen_durable_state on :"schema".gen_durable;
drop trigger gen_durable_timeline on :"schema".gen_durable;
drop trigger signals_payload on :"schema".signals;
drop trigger signals_timeline on :"schema".signals;

drop function
  :"schema".gd_cancel_job, :"schema".gd_upgrade, :"schema".gd_work_on_job, :"schema".gd_refused, :"schema".gd_try_for,
  :"schema".gd_act_for, :"schema".gd_begin_job, :"schema".gd_upgrade_fault, :"schema".gd_fits, :"schema".gd_resume,
  :"schema".gd_pause, :"schema".gd_requeue, :"schema".gd_run_now, :"schema".gd_stop, :"schema".gd_retry, :"schema".gd_operate,
  :"schema".gd_act_fault, :"schema".gd_act, :"schema".gd_act_statuses, :"schema".gd_enter_act, :"schema".gd_why,
  :"schema".gd_held_text, :"schema".gd_holder, :"schema".gd_lockers, :"schema".gd_runs, :"schema".gd_status,
  :"schema".gd_status_id, :"schema".gd_fork, :"schema".gd_rewind, :"schema".gd_put_back, :"schema".gd_entry,
  :"schema".gd_in_step, :"schema".gd_history, :"schema".gd_history_id, :"schema".gd_transition, :"schema".gd_move_named,
  :"schema".gd_move, :"schema".gd_enter_transition, :"schema".gd_move_conflict, :"schema".gd_signal, :"schema".gd_signal_id,
  :"schema".gd_not_stored, :"schema".gd_announce, :"schema".gd_insert, :"schema".gd_insert_row, :"schema".gd_enter_insert,
  :"schema".gd_rely_on, :"schema".gd_arrival, :"schema".gd_choose_version, :"schema".gd_known_queue, :"schema".gd_unknown,
  :"schema".gd_names, :"schema".gd_nearest, :"schema".gd_distance, :"schema".gd_expiry, :"schema".gd_hold_all,
  :"schema".gd_hold, :"schema".gd_hold_key, :"schema".gd_address, :"schema".gd_repair, :"schema".gd_check,
  :"schema".gd_refuse_ids, :"schema".gd_ids_fault, :"schema".gd_id_sequences, :"schema".gd_follow_before_insert,
  :"schema".gd_next_id, :"schema".gd_follow_timeline, :"schema".gd_timeline, :"schema".gd_named, :"schema".gd_key_text,
  :"schema".gd_shell_text, :"schema".gd_time_text, :"schema".gd_us, :"schema".gd_check_payload, :"schema".gd_check_state,
  :"schema".gd_mover_fault, :"schema".gd_json_fault, :"schema".gd_name_fault, :"schema".gd_refuse, :"schema".gd_traceparent;

drop view :"schema".gen_durable_transitions;
drop sequence :"schema".gen_durable_timeline;
drop table :"schema".gen_durable_schema, :"schema".gen_durable_jobs, :"schema".gen_durable_ledger, :"schema".gen_durable_crashes,
  :"schema".gen_durable_queues, :"schema".gen_durable_nodes, :"schema".gen_durable_machines, :"schema".signals,
  :"schema".gen_durable;
drop type :"schema".durable_status;
