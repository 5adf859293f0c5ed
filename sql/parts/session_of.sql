-- Whether session s, an element of a node's list, is that of a. As text: what anybody has written there is no error. When
-- another role's session began may not be seen, but its role is.
a.pid::text = s ->> 'process'
and (to_jsonb(a.backend_start) #>> '{}' = s ->> 'began' or a.backend_start is null and a.usename = s ->> 'role')
