-- The W3C traceparent of what has asked for an instance, or has sent a signal. What is inserted without naming the column, by
-- gd_insert and gd_signal, has that of the caller's setting gd.traceparent; what is no traceparent is none, as
-- W3C wants it.
create function :"schema"._gd_traceparent() returns text
language sql stable
begin atomic
  select substring(current_setting('gd.traceparent', true)
                   from '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$');
end;
