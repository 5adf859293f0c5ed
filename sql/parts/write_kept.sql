-- Of flush_keep and flush_erase, behind parts/write_any: what is written of rows with and without history.
      , ledger_step = case when g.history > 0 then case when h.moves then h.step else g.step end end,
      expires_at =
-- include parts/expiry.sql
  from checked h
