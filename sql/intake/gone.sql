-- What is said of an instance that is not there: whether it was erased, by whom and why. $1 bigint id
-- One row: the sentence, and whether it was.
select :"schema"._gd_gone_text($1::bigint, null) as told, :"schema"._gd_erased_text($1::bigint) is not null as erased
