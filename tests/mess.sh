#!/usr/bin/env bash
# At three in the morning: eleven orders hang, for eleven reasons at once. What is wrong is
# asked of gdctl, and mended with gdctl. Each cause has to be told, and each order done in
# the end. What an operator types and sees is printed: it stands in docs/run/operations.md.
# With OTHER, that program does it in the place of these commands, in the same directory.
#
#   tools/private-postgres run -- tests/mess.sh GDCTL MESS [OTHER]
set -euo pipefail

gdctl=$(realpath "$1")
mess=$(realpath "$2")
other=${3:+$(realpath "$3")}
guide=$(realpath "$(dirname "$0")/../docs/run/operations.md")
scratch=$(mktemp -d)
cd "$scratch"
database=mess_$$
psql() {
  "$GD_TEST_POSTGRES_BIN/psql" -XqAt -v ON_ERROR_STOP=1 "$@"
}
psql -d "$GD_DATABASE" -c "create database $database"
server=$GD_DATABASE
export GD_DATABASE=${server/dbname=postgres/dbname=$database}
pids=()

# shellcheck disable=SC2317 # the trap calls it
cleanup() {
  kill -KILL "${pids[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
  psql -d "$server" -c "drop database $database with (force)" || true
  rm -rf "$scratch"
}
trap cleanup EXIT

fail() {
  echo "FAILED: $*" >&2
  "$gdctl" list --limit 100 >&2 || true
  tail -n 5 ./*.log >&2
  exit 1
}
sql() {
  psql -d "$GD_DATABASE" -c "$1"
}
wait_for() { # a condition in SQL; the end after five minutes is a guard against hangs
  local i
  for ((i = 0; i < 3000; ++i)); do
    [[ $(sql "select $1") != t ]] || return 0
    sleep 0.1
  done
  fail "not in time: $1"
}
start() { # node, version, seconds of a lease, queues
  "$mess" "$@" >> "$1.out" 2>> "$1.log" &
  pids+=($!)
}
order() { # number, item, options of insert; whatever the queue: orders come from elsewhere
  "$gdctl" insert Order --force --unique-key "order $1" --unique-scope \
    runnable,executing,awaiting_signal,done,failed \
    --state "{\"item\": \"$2\"}" "${@:3}" 2>> insert.log > inserted
}
is() { # order, condition
  wait_for "exists (select from gen_durable where unique_key = 'order $1'::bytea and $2)"
}

# What an operator types: shown, with what it prints, and checked.
try() {
  {
    printf '$ gdctl'
    printf ' %s' "$@"
    echo
  } | sed -E "s/(order [0-9]+|payment: connection refused|the relay is back|its node has no power|the warehouse does not answer)/'\1'/g" | tee -a typed_here
  "$gdctl" "$@" 2>&1 | tee said
}
because() { # cause, order: why says so
  try why --key "order $2"
  local found
  found=$("$gdctl" why --key "order $2" --json | grep -o '"cause":"[a-z_]*"')
  [[ $found == "\"cause\":\"$1\"" ]] || fail "order $2: expected $1, got $found"
  echo
}
says() {
  grep -qF -- "$1" said || fail "expected '$1' in what it said"
}

# -- the mess ------------------------------------------------------------------

"$gdctl" migrate up > migrate.log 2>&1
touch relay_down bug stuck
# A node with the version of before, which somebody has switched off for good.
start old 1 60 default
old=${pids[0]}
wait_for "exists (select from gen_durable_machines where version = 1)"
order 1001 book --version 1 --delay 1h
kill -TERM "$old"
wait "$old" || true

start shop 2 60 default mail
wait_for "exists (select from gen_durable_machines where version = 2)"
for n in {1..20}; do
  order $((2000 + n)) book
done
order 1002 book
wait_for "21 = (select count(*) from gen_durable where status = 'failed')"
rm relay_down
"$gdctl" pause mail --reason 'the printer is broken' --by ann > pause.log 2>&1
order 1003 book --queue mail --delay 1h # due below, when who has not seen the pause yet has seen it
order 1004 book --queue expres
order 1005 slow --partition-key 'customer 7'
is 1005 "status = 'executing'"
order 1006 book --partition-key 'customer 7'
order 1007 parcel
is 1007 "status = 'awaiting_signal'"
order 1008 rare
is 1008 "status = 'runnable' and attempt = 1"
# A node that its supervisor starts again and again, and an order that ends it.
order 1009 bomb --queue risky
bomb="select status from gen_durable where unique_key = 'order 1009'"
life=0
while [[ $(sql "$bomb") != failed ]]; do
  start "risky$((++life))" 2 2 risky
  while kill -0 "${pids[-1]}" 2> /dev/null && [[ $(sql "$bomb") != failed ]]; do
    sleep 0.1
  done
done
# A node that a power failure has ended in the middle of a step, with a long lease.
start cellar 2 600 cellar
cellar=${pids[-1]}
order 1010 slow --queue cellar
is 1010 "status = 'executing'"
kill -KILL "$cellar"
wait "$cellar" || true
start cellar2 2 600 cellar
# Somebody's psql, left open over an order that is due later.
order 1011 book --delay 1h
mkfifo to_bob
psql -d "$GD_DATABASE application_name=bob" < to_bob > bob.out 2>&1 &
bob=$!
pids+=("$bob")
exec 9> to_bob
# Due some seconds after it is locked.
echo "update gen_durable set eligible_at = now() + interval '5 s' where unique_key = 'order 1011';
  begin; select from gen_durable where unique_key = 'order 1011' for update;" >&9
wait_for "exists (select from pg_stat_activity where state = 'idle in transaction' and application_name = 'bob')"
sql "update gen_durable set eligible_at = now() where unique_key in ('order 1001', 'order 1003')"
wait_for "not exists (select from gen_durable where eligible_at > now() and unique_key in ('order 1001', 'order 1003', 'order 1011'))"
wait_for "exists (select from gen_durable_nodes where node = 'cellar2')"

# -- taken apart ----------------------------------------------------------------

take_apart() {
  try queues
  echo
  try nodes
  echo
  try list --status failed --limit 3
  echo
  because failed 1002
  because version_unknown 1001
  because queue_paused 1003
  because queue_unserved 1004
  because behind 1006
  because executes 1005
  because waits 1007
  because delayed 1008
  because failed 1009
  because left_behind 1010
  because row_locked 1011

  try retry --machine Order --failure 'payment: connection refused' --dry-run
  says '"fit":21'
  try retry --machine Order --failure 'payment: connection refused' --reason 'the relay is back'
  echo
  try resume mail
  try move --queue expres --to default
  try signal --key 'order 1007' delivered
  try run-now --key 'order 1008'
  echo
  try stop --key 'order 1010' --reason 'its node has no power'
  try stop --key 'order 1005' --reason 'the warehouse does not answer'
  # The warehouse answers again.
  rm stuck
  try retry --key 'order 1010'
  try retry --key 'order 1005'
  echo
  # The bug is mended, and deployed.
  rm bug
  try retry --key 'order 1009'
  # bob goes on with his work, and the old version runs again.
  echo "commit;" >&9
  start old 1 60 default
}

if [[ $other ]]; then
  "$other" "$gdctl" "$mess"
else
  take_apart
fi
wait_for "not exists (select from gen_durable where status <> 'done')"
[[ $(sql "select count(*) from gen_durable where status = 'done'") == 31 ]] \
  || fail "expected 31 orders that are done"
[[ -z $other ]] || exit 0
echo
try list --status failed
try queues
diff <(sed -n '/^### A mess, taken apart/,/^##* [^A]/p' "$guide" | grep '^\$ gdctl') typed_here \
  || fail "docs/run/operations.md shows other commands"
