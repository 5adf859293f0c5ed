-- Of show: x.value as text, how many bytes it prints, and nothing of it if it is longer than the most, or than 34 times what
-- it takes: then it has numbers that nobody has checked. What is stored short and plain is counted before: a number
-- prints up to 131,072 digits.
  select octet_length(t.text) as bytes,
    case when octet_length(t.text) > least($5::bigint, 34::bigint * pg_column_size(x.value #> '{}')) then '' else t.text end
      as text
  from (
    select case when pg_column_size(x.value) <= 2000 and pg_column_compression(x.value) is null and (
-- include parts/digits.sql
      ) > 68000
      then '' else x.value::text end as text
    offset 0
  ) t
