-- How times, keys and names are shown.

-- In us since 1970, exact for all times that a state can hold, until the year 9999; what is further away, or infinite, is the
-- year 1 or 9999.
create function :"schema"._gd_us(at timestamptz) returns bigint
language sql immutable
begin atomic
  select case when _gd_us.at is not null then (extract(epoch from greatest(
    least(_gd_us.at, timestamptz '9999-12-31 23:59:59.999999Z'), timestamptz '0001-01-01 00:00:00Z')) * 1000000)::bigint end;
end;

-- A time as sentences have it: in UTC, to the second. Years before our era are told from those of it.
create function :"schema"._gd_time_text(at timestamptz) returns text
language sql stable
begin atomic
  select case when isfinite(_gd_time_text.at)
    then to_char(_gd_time_text.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
         || case when _gd_time_text.at < timestamptz '0001-01-01 00:00:00Z' then ' BC' else '' end
    else _gd_time_text.at::text end;
end;

-- A name as a shell takes it, for commands that are shown: of names that are more than a word, in quotes.
create function :"schema"._gd_shell_text(name text) returns text
language sql immutable
begin atomic
  select case when _gd_shell_text.name ~ '^[A-Za-z0-9_./:@%+,=-]+$' then _gd_shell_text.name
              else '''' || replace(_gd_shell_text.name, '''', '''' || chr(92) || '''''') || '''' end;
end;

-- A key as it is shown: as it is, if it is UTF-8 without control characters, those of bidirectional text among them, and does
-- not begin with \x; else \x and the hexadecimal digits of its bytes, of which the pattern is: with what a sequence begins.
create function :"schema"._gd_key_text(key bytea) returns text
language sql immutable strict
begin atomic
  select case
    when getdatabaseencoding() = 'UTF8' and substring(k.hex for 4) <> '5c78' and k.hex ~ concat(
      '^(?:(?!d89c|e2808[ef]|e280a[a-e]|e281a[6-9])(?:[2-6][0-9a-f]|7[0-9a-e]|c2[ab][0-9a-f]',
      '|(?:c[3-9a-f]|d[0-9a-f])[89ab][0-9a-f]',
      '|(?:e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f][89ab][0-9a-f]',
      '|(?:f0[9ab]|f[1-3][89ab]|f48)[0-9a-f](?:[89ab][0-9a-f]){2}))*$')
    then convert_from(_gd_key_text.key, 'UTF8')
    else chr(92) || 'x' || k.hex end
  from (select encode(_gd_key_text.key, 'hex') as hex) k;
end;

-- How messages call it, behind "instance".
create function :"schema"._gd_named(id bigint, key bytea) returns text
language sql immutable
begin atomic
  select case when _gd_named.key is null then _gd_named.id::text
              else 'with the unique key ' || :"schema"._gd_key_text(_gd_named.key) end;
end;

-- That an instance was erased, behind its number; null: it was not.
create function :"schema"._gd_erased_text(id bigint) returns text
language sql stable
begin atomic
  select format('was erased at %s by %s: %s', :"schema"._gd_time_text(e.at), left(e.by, 255), left(e.reason, 1000))
  from :"schema".gen_durable_erased e
  where e.instance_id = _gd_erased_text.id;
end;

-- What is said of an instance that is not there.
create function :"schema"._gd_gone_text(id bigint, key bytea) returns text
language sql stable
begin atomic
  select coalesce(
    case when _gd_gone_text.key is null then format('instance %s ', _gd_gone_text.id) || :"schema"._gd_erased_text(_gd_gone_text.id) end,
    format('there is no instance %s', coalesce(:"schema"._gd_named(_gd_gone_text.id, _gd_gone_text.key), 'null')));
end;
