-- Which process has given g its lease token: a hash of its incarnation, which is the token without the number behind its last slash.
hashtextextended(regexp_replace(g.locked_by, '/[^/]*$', ''), 0)
