#!/usr/bin/env bash
# Tunnels as gdctl makes them, with real processes on both sides.
#
#   tests/tunnels.sh PART GDCTL WORKER CLIENT
#
# PART: gdctl (what it writes, and refuses to), stunnel or haproxy (what gets through a
# tunnel of theirs). WORKER and CLIENT: the examples checkout_worker and remote_client,
# for a gateway behind the tunnel. The database is that of GD_DATABASE.
set -euo pipefail
# shellcheck source=tests/support/shell.sh
. "$(dirname "$0")/support/shell.sh"

PATH=$PATH:/usr/sbin # where Debian has haproxy
here=$(cd "$(dirname "$0")" && pwd)
part=$1 gdctl=$2 worker=${3-} client=${4-}
scratch=$(mktemp -d)
cd "$scratch"
started=()
schema=tunnels_$part

cleanup() {
  [[ ${#started[@]} -eq 0 ]] || kill -KILL "${started[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
  [[ ! -e migrated ]] || "$gdctl" --schema "$schema" migrate down --to 0 --with-instances > down.log 2>&1 || true
  rm -rf "$scratch"
}
trap cleanup EXIT

told() {
  echo "ok: $*"
}

# -- what gdctl writes -----------------------------------------------------------

# exits CODE ARGUMENT...: gdctl tls with these; what it says is in said.
exits() {
  local code=0
  "$gdctl" tls "${@:2}" > said 2>&1 || code=$?
  [[ $code == "$1" ]] || fail "gdctl tls ${*:2} ends with $code, expected $1: $(cat said)"
}
says() {
  grep -qF -- "$1" said || fail "expected \"$1\", got: $(cat said)"
}
mode() {
  stat -c %a "$1"
}

test_gdctl() {
  exits 0 init a
  says 'gdctl tls node'
  [[ $(mode a) == 700 && $(mode a/ca.key) == 600 ]] || fail "others can read the authority's key"
  cp a/ca.key before
  exits 1 init a
  says 'a/ca.pem is there already'
  cmp -s a/ca.key before || fail "an authority was overwritten"

  in=(--accept 0.0.0.0:4712 --engine 127.0.0.1:4711 --from "web1,web2")
  exits 0 node db1 --dir a "${in[@]}" --to db2 db2.example.org:4712 /run/shop/db2
  says 'a/db1/node.pem: db1 until'
  says 'stunnel stunnel.conf'
  [[ $(mode a/db1) == 700 && $(mode a/db1/node.pem) == 600 ]] || fail "others can read a node's key"
  openssl verify -CAfile a/ca.pem -purpose sslserver a/db1/node.pem > /dev/null || fail "it is no server"
  openssl verify -CAfile a/ca.pem -purpose sslclient a/db1/node.pem > /dev/null || fail "it is no client"
  openssl verify -CAfile a/ca.pem -verify_hostname db1 a/db1/node.pem > /dev/null || fail "it is not db1"
  ! openssl verify -CAfile a/ca.pem -verify_hostname db2 a/db1/node.pem > /dev/null 2>&1 || fail "it is db2, too"
  ! openssl verify -CAfile a/db1/node.pem -partial_chain a/ca.pem > /dev/null 2>&1 || fail "a node signs others"
  told "certificates are for one name, both sides, and sign nothing"

  cp -r a/db1 before.db1
  exits 1 node db1 --dir a "${in[@]}"
  says 'a/db1 is there already'
  diff -r a/db1 before.db1 || fail "a node was overwritten"
  exits 0 node db1 --dir a --renew
  says 'kill -HUP'
  ! cmp -s a/db1/node.pem before.db1/node.pem || fail "it was not renewed"
  cmp -s a/db1/stunnel.conf before.db1/stunnel.conf || fail "its configuration was overwritten"
  [[ $(mode a/db1/node.pem) == 600 ]] || fail "others can read a renewed key"
  exits 0 node db1 --dir a "${in[@]}" --replace
  ! grep -q db2 a/db1/stunnel.conf a/db1/haproxy.cfg || fail "it was not replaced"
  told "nothing is overwritten without a flag"

  exits 5 node db1 --dir nowhere "${in[@]}"
  says 'there is no authority in nowhere'
  exits 5 node db9 --dir a --renew
  says 'there is no node db9'
  exits 2 node db3 --dir a
  exits 2 node db3 --dir a --accept 0.0.0.0:4712
  exits 2 node db1 --dir a --renew "${in[@]}"
  local bad
  for bad in '' Db3 -db3 db3. '*' a/b .. a..b "$(printf 'x%.0s' {1..64})" $'db3\nx'; do
    exits 2 node --dir a "${in[@]}" -- "$bad"
    says "NAME: expected a ${bad:+name}"
  done
  for bad in 0.0.0.0:4711 db1:4711 127.0.0.1 127.0.0.1:0 127.0.0.1:65536 10.0.0.1:4711 '/tmp/a b' $'/tmp/a\n[x]' \
    "/$(printf 'x%.0s' {1..108})"; do
    exits 2 node db3 --dir a --accept 0.0.0.0:4712 --engine "$bad" --from web1
    says '--engine: expected'
    exits 2 node db3 --dir a --to db1 db1.example.org:4712 "$bad"
  done
  for bad in 'db1' 'db1 x:1' ':1' 'db1:0' $'db1:1\nx' '-x:1' "db1;:1" '[::g]:1'; do
    exits 2 node db3 --dir a --to db1 "$bad" 127.0.0.1:4711
  done
  exits 2 node db3 --dir a --to db1 a:1 /tmp/x --to db1 b:1 /tmp/y
  exits 2 node db3 --dir a --accept 0.0.0.0:4712 --engine 127.0.0.1:4711 --from 'web1 or 1'
  [[ ! -e a/db3 ]] || fail "something was written for what was refused"
  told "what cannot be used is refused by name"

  exits 0 show a
  says 'a/db1/node.pem: db1, until'
  exits 1 show a --within 366d
  says 'renew'
  exits 0 show a/db1 --json
  says '"ends_soon":false'
  mkdir empty
  exits 5 show empty
  exits 2 show a --within soon
  echo x > a/ca.pem
  exits 2 show a
  says 'a/ca.pem: expected a certificate'
  exits 2 node db3 --dir a "${in[@]}"
  says "the authority's certificate cannot be read"
  exits 0 init b
  cp b/ca.pem a/ca.pem
  exits 2 node db3 --dir a "${in[@]}"
  says "the authority's key is not that of its certificate"
  told "certificates that end soon are told"
  local help
  for help in '' init node show; do
    # shellcheck disable=SC2086 # none, or one
    exits 0 $help --help
    says 'Exit codes:'
  done
}

# -- what gets through a tunnel --------------------------------------------------

# A port of this machine that nobody listens at, below those that the system gives out.
next_port=$((20000 + $$ % 1000 * 10))
free_port() {
  while listens "$next_port"; do
    next_port=$((next_port + 1))
  done
  port=$next_port
  next_port=$((next_port + 1))
}

# tunnel FOLDER [ADDRESS:PORT]: begins to run what is configured there; its process is
# tunnel_pid. stunnel gets the socket that it accepts on as from systemd, where one is told.
tunnel() {
  local log=$PWD/${1//\//.}.log held=()
  [[ $part != stunnel || $# == 1 ]] || held=(python3 "$here/support/with_socket.py" "$2")
  (
    cd "$1"
    if [[ $part == stunnel ]]; then
      umask 077
      ulimit -n 2400
      exec "${held[@]}" stunnel stunnel.conf
    else
      exec haproxy -W -f haproxy.cfg
    fi
  ) > "$log" 2>&1 &
  tunnel_pid=$!
  started+=("$tunnel_pid")
}
end_tunnel() {
  kill "$tunnel_pid"
  wait "$tunnel_pid" 2> /dev/null || true
}
reload() {
  if [[ $part == stunnel ]]; then kill -HUP "$1"; else kill -USR2 "$1"; fi
}
# Connections to the other host begin at this address of ours, not at that of strangers.
from_address() {
  if [[ $part == stunnel ]]; then
    sed -i 's/^client = yes/&\nlocal = 127.0.0.2/' "$1/stunnel.conf"
  else
    sed -i 's/verifyhost.*/& source 127.0.0.2/' "$1/haproxy.cfg"
  fi
}

# greets PORT: whether what is behind it answers.
greets() {
  local answer
  answer=$(
    exec 2> /dev/null 3<> "/dev/tcp/127.0.0.1/$1" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && timeout 60 cat <&3
  ) || true
  [[ $answer == *hello* ]]
}
listens() {
  (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null
}
refuses() {
  ! greets "$1"
}
# knocks OPTION...: whether a TLS client with these is let through to what is behind.
knocks() {
  printf 'GET / HTTP/1.0\r\n\r\n' |
    timeout 60 openssl s_client -connect "127.0.0.1:$accept" -quiet "$@" > knocked 2> knock.log || true
  grep -q hello knocked
}

make_nodes() {
  "$gdctl" tls init a > /dev/null
  "$gdctl" tls init b > /dev/null
  free_port && accept=$port
  free_port && behind=$port
  free_port && door=$port
  "$gdctl" tls node db1 --dir a --accept "0.0.0.0:$accept" --engine "127.0.0.1:$behind" --from web1,web2 > /dev/null
  "$gdctl" tls node web1 --dir a --to db1 "localhost:$accept" "127.0.0.1:$door" > /dev/null
  from_address a/web1
}

# What is behind: says hello, to as many as like, on connections that may stay open.
say_hello() {
  cat > hello.cfg << END
defaults
  mode http
  timeout client 1m
  timeout server 1m
  timeout connect 1m
  timeout http-keep-alive 1m
listen hello
  bind 127.0.0.1:$behind
  http-request return status 200 content-type text/plain string hello
END
  haproxy -f hello.cfg > hello.log 2>&1 &
  started+=($!)
  wait_until greets "$behind"
}

test_names() {
  knocks -CAfile a/ca.pem -cert a/web1/node.pem -key a/web1/node.pem || fail "who may is not let in: $(cat knock.log)"
  "$gdctl" tls node web2 --dir a --to db1 x:1 /x > /dev/null
  knocks -cert a/web2/node.pem -key a/web2/node.pem || fail "the second of two that may is not let in"
  told "who may is let in"
  ! knocks || fail "no certificate is let in"
  "$gdctl" tls node web1 --dir b --to db1 x:1 /x > /dev/null
  ! knocks -cert b/web1/node.pem -key b/web1/node.pem || fail "another authority's web1 is let in"
  for name in web3 db1 web web11 xweb1; do
    [[ -e a/$name ]] || "$gdctl" tls node $name --dir a --to db1 x:1 /x > /dev/null
    ! knocks -cert a/$name/node.pem -key a/$name/node.pem || fail "$name is let in"
  done
  # web1 until yesterday, of this authority.
  openssl req -new -key a/web1/node.pem -subj /CN=web1 -addext subjectAltName=DNS:web1 -out old.csr 2> /dev/null
  openssl x509 -req -in old.csr -copy_extensions copy -CA a/ca.pem -CAkey a/ca.key -days -1 -out old.pem 2> /dev/null
  ! knocks -cert old.pem -key a/web1/node.pem || fail "an expired certificate is let in"
  # web1 of an authority that web1 itself has made up.
  openssl x509 -req -in old.csr -copy_extensions copy -CA a/web3/node.pem -CAkey a/web3/node.pem -days 1 -out made.pem 2> /dev/null
  ! knocks -cert made.pem -key a/web1/node.pem -cert_chain a/web3/node.pem || fail "a node signs others"
  told "no certificate, another authority's, another name's, an expired one, one that a node has signed: none is let in"
  ! knocks -tls1_2 -cert a/web1/node.pem -key a/web1/node.pem || fail "TLS 1.2 is let in"
  # What is resumed is not asked for its name again.
  printf 'GET / HTTP/1.0\r\n\r\n' | timeout 60 openssl s_client -connect "127.0.0.1:$accept" -ign_eof -sess_out session \
    -cert a/web1/node.pem -key a/web1/node.pem > resumed 2>&1 || true
  if [[ -s session ]]; then
    timeout 60 openssl s_client -connect "127.0.0.1:$accept" -sess_in session < /dev/null > resumed 2>&1 || true
    ! grep -q '^Reused' resumed || fail "a session is resumed"
  fi
  told "TLS 1.2 and resumed sessions are not let in"
}

# The other way round: who is connected to must be who is meant.
test_server_names() {
  local name
  for name in db2 db a b; do
    free_port
    local dir=a
    [[ $name != b ]] || dir=b # the authority of this one knows another db1
    local to=$name
    [[ $name != a && $name != b ]] || to=db1
    local me=client-$name
    "$gdctl" tls node "$me" --dir $dir --to "$to" "127.0.0.1:$accept" "127.0.0.1:$port" > /dev/null
    # Only its own check is to be tested: the other side would let it in.
    [[ $dir == b ]] || cp a/web1/node.pem "a/$me/node.pem"
    tunnel "$dir/$me"
    wait_until listens "$port"
    if [[ $name == a ]]; then
      greets "$port" || fail "a client does not connect to db1"
    else
      refuses "$port" || fail "a client connects to db1, and expects $to of $dir"
    fi
    end_tunnel
  done
  told "a client connects to nobody else than it names"
}

# Strangers at the port; meanwhile the tunnel carries others.
test_strangers() {
  local i fd fds=()
  for i in 1 2 3; do
    head -c 5000 /dev/urandom | timeout 60 bash -c "cat > /dev/tcp/127.0.0.1/$accept" 2> /dev/null || true
    printf 'GET / HTTP/1.0\r\n\r\n' | timeout 60 bash -c "cat > /dev/tcp/127.0.0.1/$accept" 2> /dev/null || true
    printf '\x16\x03\x01\xff\xff' | timeout 60 bash -c "cat > /dev/tcp/127.0.0.1/$accept" 2> /dev/null || true
  done
  greets "$door" || fail "garbage ends it"
  told "garbage ends nothing"

  # Some begin a handshake, all are silent then.
  ulimit -n 4096
  local began=$SECONDS
  for ((i = 0; i < 1000; ++i)); do
    exec {fd}<> "/dev/tcp/127.0.0.1/$accept" || fail "no connection $i"
    ((i % 2)) || (printf '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh' >&"$fd") 2> ended || true
    fds+=("$fd")
    ((i % 100)) || greets "$door" || fail "nobody is let in beside $i silent connections"
  done
  local at=${EPOCHREALTIME/./}
  greets "$door" || fail "nobody is let in beside a thousand silent connections"
  told "a thousand silent connections hinder nobody: let in after $(((${EPOCHREALTIME/./} - at) / 1000)) ms," \
    "$(ps -o rss= --pid "$server" --ppid "$server" | awk '{n += $1} END {print int(n / 1024)}') MB"
  for fd in "${fds[@]}"; do
    # Until the other side ends it.
    timeout 300 cat <&"$fd" > /dev/null 2>&1 || [[ $? == 1 ]] || fail "a silent connection stays"
    exec {fd}>&-
  done
  told "silent connections are ended, the last after $((SECONDS - began)) s"
}

# One that stays open, and is used now and then.
open_one() {
  exec {one}<> "/dev/tcp/127.0.0.1/$door"
  use_one
}
use_one() {
  local line
  printf 'GET / HTTP/1.1\r\nhost: x\r\n\r\n' >&"$one"
  while IFS= read -r -t 10 line <&"$one"; do
    [[ $line != $'\r' ]] || break
  done
  IFS= read -r -N 5 -t 10 line <&"$one" && [[ $line == hello ]]
}

serial() {
  openssl s_client -connect "127.0.0.1:$accept" -cert a/web1/node.pem -key a/web1/node.pem < /dev/null 2> /dev/null |
    openssl x509 -noout -serial 2> /dev/null || true
}
is_renewed() {
  local now
  now=$(serial)
  [[ -n $now && $now != "$before" ]]
}

has_let_in() {
  (($(wc -l < let_in) > $1))
}

test_renewal() {
  local before
  before=$(serial)
  (while [[ ! -e renewed ]]; do
    greets "$door" || echo "not let in" >> outage.log
    echo >> let_in
  done) &
  local asker=$!
  started+=("$asker")
  "$gdctl" tls node db1 --dir a --renew > /dev/null
  reload "$server"
  wait_until is_renewed
  "$gdctl" tls node web1 --dir a --renew > /dev/null
  reload "$home"
  local i seen
  for i in {1..20}; do
    seen=$(wc -l < let_in)
    wait_until has_let_in $((seen + 1))
    reload "$server"
    reload "$home"
  done
  : > renewed
  wait "$asker"
  [[ ! -e outage.log ]] || fail "a renewal was an outage for $(wc -l < outage.log) of $(wc -l < let_in)"
  use_one || fail "a connection does not survive a renewal"
  told "renewed on both sides: $(wc -l < let_in) connections meanwhile, and one that was there before"
}

# orders NUMBER AT [OPTION]: whether an order goes through to the gateway, and its receipt comes back.
orders() {
  timeout 60 "$client" --at="$2" "${@:3}" --order="$1" > "client$1.log" 2>&1 || true
  grep -q "order $1 is shipped" "client$1.log"
}

# A gateway behind it all: from a socket to a socket, and from a port to a port.
test_gateway() {
  "$gdctl" --schema "$schema" migrate up > migrate.log 2>&1
  : > migrated
  "$worker" --schema "$schema" --publish "$PWD/db3.sock" > socket.log 2>&1 &
  started+=($!)
  wait_until grep -q '^published at' socket.log
  free_port && accept=$port
  "$gdctl" tls node db3 --dir a --accept "127.0.0.1:$accept" --engine "$PWD/db3.sock" --from web3 > /dev/null
  "$gdctl" tls node web3 --dir a --replace --to db3 "127.0.0.1:$accept" "$PWD/web3.sock" > /dev/null
  tunnel a/db3
  tunnel a/web3
  wait_until test -S "$PWD/web3.sock"
  orders 7 "unix:$PWD/web3.sock" || fail "no order goes through: $(cat client7.log)"
  told "an order goes through to the gateway, and its receipt comes back"

  "$gdctl" secret new secret > /dev/null
  "$gdctl" secret new other > /dev/null
  "$worker" --schema "$schema" --publish-port 0 --secret secret > port.log 2>&1 &
  started+=($!)
  wait_until grep -q '^published at' port.log
  local published
  published=$(sed -n 's/^published at //p' port.log)
  free_port && accept=$port
  "$gdctl" tls node db5 --dir a --accept "127.0.0.1:$accept" --engine "$published" --from web5 > /dev/null
  free_port && door=$port
  "$gdctl" tls node web5 --dir a --to db5 "127.0.0.1:$accept" "127.0.0.1:$door" > /dev/null
  tunnel a/db5
  tunnel a/web5
  wait_until listens "$door"
  orders 8 "127.0.0.1:$door" --secret=secret || fail "no order goes through: $(cat client8.log)"
  ! orders 9 "127.0.0.1:$door" --secret=other || fail "an order goes through with another secret"
  grep -q 'the same secret' client9.log || fail "expected to be told of the secret, got: $(cat client9.log)"
  told "from port to port, with the secret of both ends, and with no other"
}

# The plain ends may be sockets of the file system.
test_sockets() {
  free_port && accept=$port
  "$gdctl" tls node db4 --dir a --accept "127.0.0.1:$accept" --engine "$PWD/db4.sock" --from web4 > /dev/null
  "$gdctl" tls node web4 --dir a --to db4 "127.0.0.1:$accept" "$PWD/web4.sock" > /dev/null
  free_port
  # What begins at a port, and ends at the other, since bash knows no such sockets.
  cat > sockets.cfg << END
defaults
  mode tcp
  timeout client 1m
  timeout server 1m
  timeout connect 1m
listen to_web4
  bind 127.0.0.1:$port
  server web4 unix@$PWD/web4.sock
listen from_db4
  bind unix@$PWD/db4.sock
  server hello 127.0.0.1:$behind
END
  haproxy -f sockets.cfg > sockets.log 2>&1 &
  started+=($!)
  tunnel a/db4
  tunnel a/web4
  wait_until greets "$port"
  [[ $(mode web4.sock) == ?00 ]] || fail "others can use the socket: $(mode web4.sock)"
  told "sockets of the file system do, for their owner alone"
}

test_tunnel() {
  make_nodes
  say_hello
  tunnel a/db1 "0.0.0.0:$accept"
  server=$tunnel_pid
  tunnel a/web1 "127.0.0.1:$door"
  home=$tunnel_pid
  wait_until greets "$door"
  test_names
  test_server_names
  open_one || fail "a connection cannot be used"
  test_strangers
  use_one || fail "a connection does not outlive the time of a handshake"
  test_renewal
  test_sockets
  test_gateway
}

if [[ $part == gdctl ]]; then
  test_gdctl
else
  test_tunnel
fi
