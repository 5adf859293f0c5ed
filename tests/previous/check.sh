#!/usr/bin/env bash
# Programs of an older commit work beside those of this one: $1 commit, $2 and $3 the
# folders in which they were built.
set -euo pipefail

die() {
  echo "previous: $*" >&2
  exit 1
}

if [[ ! -e $2/gdctl ]] && ! git -c 'safe.directory=*' -C "$(dirname "$0")" cat-file -e "$1^{commit}" 2> /dev/null; then
  echo "previous: commit $1 is not in this repository: get it (git fetch --unshallow) and build again" >&2
  exit 77
fi
for program in "$2/gdctl" "$2/examples/checkout_worker"; do
  [[ -x $program ]] || die "$program was not built: see the build's output"
done
declare -A folder=([old]=$2 [new]=$3)

files=$(mktemp -d "${TMPDIR:-/tmp}/gd-previous.XXXXXX")
database=gd_previous_$$
server=${GD_DATABASE:?run it under tools/private-postgres}
declare -A pids=()

# shellcheck disable=SC2317 # the trap calls it
cleanup() {
  local code=$? name
  trap '' INT TERM HUP
  for name in "${!pids[@]}"; do
    kill_worker "$name"
  done
  if [[ $code -ne 0 ]]; then
    (cd "$files" && tail -n 20 -- *.log >&2) || true
  fi
  "$GD_TEST_POSTGRES_BIN/psql" -d "$server" -X -q -c "drop database if exists $database (force)" || true
  rm -rf -- "$files"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() {
  printf '%3d s  %s\n' "$SECONDS" "$*"
}

# -- what the rest is made of --------------------------------------------------

sql() { # one statement; its rows, columns separated by spaces
  "$GD_TEST_POSTGRES_BIN/psql" -d "$GD_DATABASE" -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 "$@"
}

until_sql() { # expected, query
  local deadline=$((SECONDS + 60)) found
  until found=$(sql -c "$2") && [[ $found == "$1" ]]; do
    ((SECONDS < deadline)) || die "expected $1, got $found for 60 s: $2"
    sleep 0.05
  done
}

expect() { # expected, query
  local found
  found=$(sql -c "$2")
  [[ $found == "$1" ]] || die "expected $1, got $found: $2"
}

ctl() { # old or new, arguments of gdctl
  "${folder[$1]}/gdctl" "${@:2}" 2>> "$files/gdctl.log"
}

# Its name begins with old or new: whose program it is.
start() { # name, more arguments
  "${folder[${1%%-*}]}/examples/checkout_worker" --node "$1" --effects --step-time 0.05 \
    --lease 3 --heartbeat 1 --poll 0.2 --reaper 0.5 "${@:2}" 2>> "$files/$1.log" &
  pids[$1]=$!
}

kill_worker() { # name
  {
    kill -KILL "${pids[$1]}" && wait "${pids[$1]}"
  } 2> /dev/null || true
  unset "pids[$1]"
}

stop() { # name
  kill -TERM "${pids[$1]}"
  wait "${pids[$1]}" || die "$1 did not stop as it should: exit code $?"
  unset "pids[$1]"
}

# Kills it amid its work, which others take over when its leases are over.
kill_at_work() { # name
  until_sql t "select count(*) > 3 from gen_durable where status = 'executing' and locked_by like '$1/%'"
  kill_worker "$1"
  until_sql 0 "select count(*) from pg_stat_activity where datname = current_database() and application_name like '%$1'"
  until_sql 0 "select count(*) from gen_durable where status = 'executing' and locked_by like '$1/%'"
  say "$1 was killed, and its work is taken over"
}

orders=0
# What gdctl says of them is in $files/portion-<number>.
insert() { # old or new, count, portion
  local to=$((orders + $2))
  for ((; orders < to; ++orders)); do
    echo "{\"ref\":\"$orders\",\"fsm\":\"Checkout\",\"state\":{\"order\":$orders}}"
  done > "$files/orders"
  ctl "$1" insert --file "$files/orders" > "$files/portion-$3" || die "orders were refused"
  [[ $(wc -l < "$files/portion-$3") == "$2" ]] || die "expected $2 orders to be inserted"
}

pay() { # old or new, portion
  sed 's/.*"ref":"\([0-9]*\)".*/{"ref":"\1","name":"payment_confirmed","payload":{"amount":1},"dedup":"\1"}/' \
    "$files/portion-$2" > "$files/payments"
  ctl "$1" signal --file "$files/payments" --targets "$files/portion-$2" > /dev/null || die "payments were refused"
}

refuse_activation() { # name of the node that lives, arguments of gdctl
  ! "${folder[new]}/gdctl" "${@:2}" migrate activate 2> "$files/refused.log" || die "activated beside $1"
  grep -q "nodes with older libraries live.*: $1 (" "$files/refused.log" || die "expected $1 to be named"
}

# -- the run -------------------------------------------------------------------

"$GD_TEST_POSTGRES_BIN/psql" -d "$server" -X -q -c "create database $database"
export GD_DATABASE="$server dbname=$database"
sql -c "create table demo_effects (instance bigint, step text, attempt int, token text)"

ctl old migrate up > /dev/null
ctl old migrate activate > /dev/null # it has all that the old programs can do
start old-1
until_sql 1 "select count(*) from gen_durable_machines"
insert old 60 1
pay old 1
insert old 60 2
until_sql t "select count(*) > 0 from gen_durable where status = 'awaiting_signal'"
was=$(sql -c "select obj_description('gen_durable'::regclass)")
ctl new migrate up > /dev/null || die "the schema was not migrated"
[[ $(sql -c "select obj_description('gen_durable'::regclass)") == *"${was#*,}" ]] \
  || die "expected a schema that works with the same libraries as before"
say "the schema is migrated, with orders in it and an old worker at work"

start new-1
insert new 60 3
pay new 2
insert old 60 4
pay new 4
kill_at_work old-1
start old-2
insert new 100 5
pay old 3
pay old 5
kill_at_work new-1
start new-2
insert old 60 6
insert new 60 7
pay old 7
pay new 6
until_sql 0 "select count(*) from gen_durable where status not in ('done', 'failed')"
say "$orders orders have come to an end"

expect "$orders $orders" "select count(*), count(distinct state -> 'order') from gen_durable"
expect "$orders" "select count(*) from gen_durable where status = 'done' and step = 'ship'
  and result = '{\"shipped\": true}' and state -> 'n' = '1' and last_error is null"
expect 0 "select count(*) from signals where consumed_at is null"
expect "$orders" "select count(*) from signals"
expect 0 "select count(*) from (select from demo_effects group by instance, step, token having count(*) > 1) x"
expect t "select count(*) > 0 from demo_effects where attempt > 0" # else the kills have interrupted nothing
expect "new-1 new-2 old-1 old-2" "select string_agg(distinct split_part(token, '/', 1), ' ') from demo_effects"

# -- activation ----------------------------------------------------------------

refuse_activation old-2
stop old-2
insert new 40 8
pay new 8
ctl new migrate activate > /dev/null || die "not activated, although no old worker lives"
start old-3
code=0
wait "${pids[old-3]}" || code=$?
unset "pids[old-3]"
[[ $code != 0 ]] || die "an old worker has ended as if all were well"
grep -q "works with libraries from" "$files/old-3.log" || die "expected an old worker to say why it does not start"
! ctl old insert --file "$files/orders" > /dev/null || die "an old gdctl may still insert"
until_sql "$orders" "select count(*) from gen_durable where status = 'done'"
stop new-2
say "activated: old programs are refused"

# By force, in another schema: an old worker lives.
sql -c "create schema forced"
ctl old --schema forced migrate up > /dev/null
start old-4 --schema forced
until_sql 1 "select count(*) from forced.gen_durable_machines"
ctl old --schema forced insert --file "$files/orders" > /dev/null
ctl new --schema forced migrate up > /dev/null
refuse_activation old-4 --schema forced
ctl new --schema forced migrate activate --anyway > /dev/null || die "not activated by force"
say "activated by force beside an old worker"
