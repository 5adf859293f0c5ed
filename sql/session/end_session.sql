-- Ends the very session that says so, with the locks that it holds. Nobody gets an answer.
select pg_terminate_backend(pg_backend_pid())
