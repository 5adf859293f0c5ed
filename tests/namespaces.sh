#!/usr/bin/env bash
# An engine and a worker without a database in network namespaces of their own, a tunnel
# with certificates between them: the wire is cut and healed, for less than a lease and for
# more, and the worker is killed. Each instance has to be done once, by the table.
#
#   tools/private-postgres run -- tests/namespaces.sh BUILD    as root, who may make them
set -euo pipefail
# shellcheck source=tests/support/shell.sh
. "$(dirname "$0")/support/shell.sh"

build=$(realpath "$1")
frames=600
PATH=$PATH:/usr/sbin # where Debian has haproxy
scratch=$(mktemp -d)
cd "$scratch"
engine_net=gd_engine_$$ worker_net=gd_worker_$$

# shellcheck disable=SC2317 # the trap calls it
cleanup() {
  local net
  for net in "$engine_net" "$worker_net"; do
    ip netns pids "$net" 2> /dev/null | xargs -r kill -KILL || true
    ip netns del "$net" 2> /dev/null || true
  done
  wait 2> /dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT

sql() {
  "$GD_TEST_POSTGRES_BIN/psql" -d "$GD_DATABASE" -XqAt -v ON_ERROR_STOP=1 -c "$1"
}

has_done() {
  [[ $(sql "select count(*) from gen_durable where status = 'done'") -ge $1 ]]
}
has_joined() {
  [[ $(grep -c "has joined" engine.log) -ge $1 ]]
}

start_worker() {
  ip netns exec "$worker_net" "$build/examples/cluster" worker there "unix:$PWD/there" \
    > worker.out 2>> worker.log &
  worker=$!
}

ip netns add "$engine_net"
ip netns add "$worker_net"
ip link add gd_e netns "$engine_net" type veth peer name gd_w netns "$worker_net"
ip -n "$engine_net" addr add 10.9.0.1/24 dev gd_e
ip -n "$worker_net" addr add 10.9.0.2/24 dev gd_w
for side in "$engine_net lo" "$engine_net gd_e" "$worker_net lo" "$worker_net gd_w"; do
  ip -n "${side% *}" link set "${side#* }" up
done

"$build/gdctl" tls init tunnels > tls.log
"$build/gdctl" tls node here --dir tunnels --accept 10.9.0.1:4712 \
  --engine "$PWD/engine" --from there >> tls.log
"$build/gdctl" tls node there --dir tunnels --to here 10.9.0.1:4712 "$PWD/there" >> tls.log
(cd tunnels/here && exec ip netns exec "$engine_net" haproxy -f haproxy.cfg) > here.log 2>&1 &
(cd tunnels/there && exec ip netns exec "$worker_net" haproxy -f haproxy.cfg) > there.log 2>&1 &

"$build/gdctl" migrate up > migrate.log
ip netns exec "$engine_net" "$build/examples/cluster" engine "$GD_DATABASE" "$PWD/engine" \
  > engine.out 2> engine.log &
start_worker
wait_until has_joined 1
echo "ok: a worker has joined through the tunnel"

sql "insert into gen_durable (fsm, fsm_version, step, state)
  select 'Frame', 1, 'sketch', json_build_object('number', n)
  from generate_series(1, $frames) n"
wait_until has_done 100
joins=1
for seconds in 4 14; do # the lease is in between
  ip -n "$engine_net" link set gd_e down
  sleep "$seconds"
  ip -n "$engine_net" link set gd_e up
  wait_until has_joined $((++joins))
  echo "ok: the wire was cut for $seconds s, and the worker is back"
done
kill -KILL "$worker"
start_worker
wait_until has_done "$frames"
wrong=$(sql "select count(*) from gen_durable where status <> 'done'
  or (result->>'pixels')::bigint <> 111 * (result->>'number')::bigint
  or json_array_length(result::json->'by') <> 3")
[[ $wrong == 0 ]] || fail "$wrong instances are not as each step done once leaves them"
echo "ok: $frames instances are done, each step counts once"
