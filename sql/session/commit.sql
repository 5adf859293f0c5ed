-- Ends a transaction. It counts only when its tag is COMMIT: after an error the server answers ROLLBACK.
commit
