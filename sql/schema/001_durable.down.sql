-- Back to nothing. Tables call functions, and functions bind the names of tables.
alter table :"schema".gen_durable alter column traceparent drop default;
alter table :"schema".gen_durable_signals alter column traceparent drop default;

drop trigger gen_durable_changed on :"schema".gen_durable;
drop trigger gen_durable_deleted on :"schema".gen_durable;
drop trigger gen_durable_emptied on :"schema".gen_durable;
drop trigger gen_durable_timeline on :"schema".gen_durable;
drop trigger gen_durable_signals_payload on :"schema".gen_durable_signals;
drop trigger gen_durable_signals_timeline on :"schema".gen_durable_signals;

drop function
  :"schema".gd_cancel_job, :"schema"._gd_upgrade, :"schema"._gd_work_on_job, :"schema"._gd_refused, :"schema"._gd_try_for,
  :"schema"._gd_act_for, :"schema".gd_begin_job, :"schema"._gd_upgrade_fault, :"schema"._gd_fits, :"schema".gd_erase, :"schema"._gd_erase, :"schema".gd_resume,
  :"schema".gd_pause, :"schema".gd_replace, :"schema".gd_discard, :"schema".gd_requeue, :"schema".gd_run_now, :"schema".gd_stop, :"schema".gd_retry, :"schema"._gd_operate,
  :"schema"._gd_act_fault, :"schema"._gd_act, :"schema"._gd_act_statuses, :"schema"._gd_enter_act, :"schema".gd_why,
  :"schema"._gd_why, :"schema"._gd_held_text, :"schema"._gd_holder, :"schema"._gd_lockers, :"schema"._gd_runs,
  :"schema".gd_status, :"schema"._gd_status_id, :"schema".gd_fork, :"schema".gd_rewind, :"schema"._gd_rewind,
  :"schema"._gd_entry, :"schema".gd_in_step, :"schema".gd_history, :"schema"._gd_history_id, :"schema".gd_transition,
  :"schema"._gd_move_named, :"schema"._gd_move, :"schema"._gd_enter_transition, :"schema"._gd_move_conflict, :"schema".gd_signal,
  :"schema"._gd_signal_id, :"schema"._gd_signal_fault, :"schema"._gd_state_fault, :"schema"._gd_shape_fault, :"schema"._gd_kind_fault, :"schema"._gd_not_stored, :"schema".gd_announce, :"schema".gd_insert, :"schema"._gd_insert_defaults,
  :"schema"._gd_insert_faults, :"schema"._gd_insert_row, :"schema"._gd_enter_insert, :"schema"._gd_rely_on,
  :"schema"._gd_arrival, :"schema"._gd_choose_version, :"schema"._gd_known_queue, :"schema".gd_unknown, :"schema"._gd_unknown,
  :"schema"._gd_names, :"schema"._gd_meant, :"schema"._gd_one_of, :"schema"._gd_nearest, :"schema"._gd_distance, :"schema"._gd_expiry, :"schema"._gd_hold_all,
  :"schema"._gd_hold, :"schema"._gd_hold_key, :"schema"._gd_address, :"schema"._gd_repair, :"schema"._gd_check,
  :"schema"._gd_refuse_ids, :"schema"._gd_ids_fault, :"schema"._gd_id_sequences, :"schema"._gd_follow_before_insert,
  :"schema"._gd_next_id, :"schema"._gd_follow_timeline, :"schema"._gd_timeline, :"schema"._gd_gone_text, :"schema"._gd_erased_text, :"schema"._gd_named, :"schema"._gd_key_text,
  :"schema"._gd_shell_text, :"schema"._gd_time_text, :"schema"._gd_us, :"schema"._gd_list_again, :"schema"._gd_list_faults, :"schema"._gd_see_to_none, :"schema"._gd_see_to, :"schema"._gd_unlist, :"schema"._gd_check_payload,
  :"schema"._gd_mover_fault, :"schema"._gd_json_fault, :"schema"._gd_name_fault, :"schema"._gd_refuse, :"schema"._gd_traceparent;

drop view :"schema".gen_durable_transitions;
drop sequence :"schema".gen_durable_timeline;
drop table :"schema".gen_durable_schema, :"schema".gen_durable_jobs, :"schema".gen_durable_erased, :"schema".gen_durable_ledger, :"schema".gen_durable_crashes,
  :"schema".gen_durable_queues, :"schema".gen_durable_nodes, :"schema".gen_durable_machines, :"schema".gen_durable_signals,
  :"schema".gen_durable_leases, :"schema".gen_durable_due, :"schema".gen_durable;
drop type :"schema".gen_durable_status;
