#!/usr/bin/env bash
# The Debian packages: built, installed into a root of their own, used from there, and
# removed. Whoever runs this need not be root, and this machine stays as it is.
#
#   tools/private-postgres run -- tests/debian.sh VERSION
set -euo pipefail
# shellcheck source=tests/support/shell.sh
. "$(dirname "$0")/support/shell.sh"

version=$1
tree=$(realpath "$(dirname "$0")/..")
scratch=$(mktemp -d)
cd "$scratch"
root=$scratch/root
triplet=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
database=debian_$$
role=gen-durable-worker
server=$GD_DATABASE
export GD_DATABASE=${server/dbname=postgres/dbname=$database}
unset GD_SCHEMA
worker=

psql() {
  "$GD_TEST_POSTGRES_BIN/psql" -XqAt -v ON_ERROR_STOP=1 -d "$server" -c "$1"
}
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
  [[ -z $worker ]] || kill -KILL "$worker" 2> /dev/null || true
  wait 2> /dev/null || true
  psql "drop database if exists $database with (force)" || true
  psql "drop role if exists \"$role\"" || true
  rm -rf "$scratch"
}
trap cleanup EXIT

# -- built ---------------------------------------------------------------------

# What else was compiled from this tree is not compiled again: to ccache, all is as it
# was, if neither flags that name the copy nor the current folder count.
export CCACHE_NOHASHDIR=1
DEB_BUILD_OPTIONS="noautodbgsym reproducible=-all" \
  "$tree/tools/package" --output "$scratch"
packages=(*.deb)
names=$(for package in "${packages[@]}"; do dpkg-deb -f "$package" Package; done | paste -sd ' ')
[[ $names == "gdctl libgen-durable-dev libgen-durable-doc libgen-durable0.1" ]] ||
  fail "the packages are $names"
for package in "${packages[@]}"; do
  [[ $(dpkg-deb -f "$package" Version) == "$version" ]] ||
    fail "packaging/debian/changelog has another version than $version"
done

# -- installed -----------------------------------------------------------------

# What they depend on has to be on this machine: its list of packages is the root's. Of
# some images' settings, which leave out what man and doc have, nothing is taken over.
in_root() {
  fakeroot dpkg --root="$root" --log="$scratch/dpkg" --force-script-chrootless \
    --path-include='/usr/share/*' "$@" > dpkg.log 2>&1 || fail "dpkg $*"
}
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
cp /var/lib/dpkg/status "$root/var/lib/dpkg/status"
in_root --install "${packages[@]}"

export PATH=$root/usr/bin:$PATH LD_LIBRARY_PATH=$root/usr/lib/$triplet
[[ $(command -v gdctl) == "$root/usr/bin/gdctl" ]] || fail "there is no gdctl"
[[ $(gdctl --version) == "gdctl $version "* ]] || fail "gdctl is $(gdctl --version)"
for file in "$root/usr/bin/gdctl" "$root/usr/lib/$triplet"/*.so; do
  ! readelf -d "$file" | grep -E 'RPATH|RUNPATH' || fail "$file looks for libraries by itself"
  [[ $file != *.so ]] || cmake -DNM=nm "-DLIBRARY=$file" -P "$tree/tests/exports/check.cmake"
done
for file in "$root/usr/bin/gdctl" "$root/usr/lib/$triplet"/libgen_durable_{core,actors}.so; do
  cmake -DREADELF=readelf "-DFILE=$file" -DFORTIFIED=1 -P "$tree/tests/hardening.cmake"
done

for command in why serve; do
  MANWIDTH=80 man -l "$root/usr/share/man/man1/gdctl-$command.1.gz" > page 2> man.log
  grep -q "gdctl-$command - " page || fail "the man page is $(head -3 page)"
done
cmp <(gdctl completion bash) "$root/usr/share/bash-completion/completions/gdctl"
cmp <(gdctl completion zsh) "$root/usr/share/zsh/vendor-completions/_gdctl"
cmp <(gdctl completion fish) "$root/usr/share/fish/vendor_completions.d/gdctl.fish"
doc=$root/usr/share/doc/libgen-durable-dev # where Debian has those of a -doc
for file in README.md docs/{guide/machines.md,run/{page.md,grafana.json},images/overview.png} sql/README.md \
  examples/{embedded/main.cpp,data/orders.jsonl}; do
  cmp "$tree/$file" "$doc/$file"
done
compressed=$(find "$doc/" -name '*.gz' ! -name 'changelog*')
[[ -z $compressed ]] || fail "links lead to $compressed"
cmp {"$tree/sql","$root/usr/share/gen_durable"}/grants/read.sql
cmp {"$tree/docs/run","$root/usr/share/gen_durable"}/alerts.yml
cmp {"$tree/docs/run","$root/usr/share/gen_durable"}/grafana.json

# -- built with ----------------------------------------------------------------

launcher=$(command -v ccache || true)
export CCACHE_BASEDIR=$scratch
cmake -DWAY=find_package -DSOURCE="$tree" -DPREFIX="$root/usr" -DLIBDIR="lib/$triplet" \
  -DDIR="$scratch/consumer" "-DCOMPONENTS=core;testing;actors;network;actors_testing;metrics" \
  -DCXX=g++ -DLAUNCHER="$launcher" -DSEARCH= -P "$tree/tests/consumer/check.cmake"
read -ra flags < <(PKG_CONFIG_PATH=$root/usr/lib/$triplet/pkgconfig pkg-config --cflags gen_durable_actors)
read -ra libs < <(PKG_CONFIG_PATH=$root/usr/lib/$triplet/pkgconfig pkg-config --libs gen_durable_actors)
${launcher:+"$launcher"} g++ -std=c++20 "${flags[@]}" -c "$doc/examples/embedded/main.cpp" -o embedded.o
g++ embedded.o -o embedded "${libs[@]}"

# -- run as the unit does ------------------------------------------------------

unit=$root/lib/systemd/system/gen-durable-worker@.service
says() { # SETTING
  sed -n "s/^$1=//p" "$unit"
}
for name in shop checkout-eu-central-1-of-a-shop shop.eu shop@eu; do
  instance=${unit/@/@$name}
  systemd-analyze verify --man=no "$instance" > unit.log 2>&1 || fail "the unit as $name"
  [[ ! -s unit.log ]] || fail "the unit as $name"
  # What it has understood, it tells those who debug it.
  SYSTEMD_LOG_LEVEL=debug systemd-analyze verify --man=no "$instance" > unit.log 2>&1
  for setting in "User: $role" "DynamicUser: yes" "ProtectSystem: strict" "PrivateTmp: yes" \
    "RuntimeDirectory: gen-durable/$name" "EnvironmentFile: /etc/gen-durable/$name.env"; do
    grep -q "^\s*$setting\$" unit.log || fail "as $name it has not $setting"
  done
done
systemd-analyze security --offline=true --threshold=20 "$unit" > unit.log 2>&1 || fail "the unit is exposed"
command=$(says ExecStart)
command=${command//%i/shop}
command=${command//\$\$/\$}
code=0
env -u GD_WORKER bash -c "exec $command" 2> said || code=$?
[[ $code != 0 ]] || fail "without GD_WORKER it ends well"
grep -q 'GD_WORKER: is not set in /etc/gen-durable/shop.env' said || fail "it says $(cat said)"

[[ $(GD_WORKER='echo * ?' bash -c "exec $command") == '* ?' ]] || fail "GD_WORKER is expanded"

# As the documents have it: its role, with the rights of an engine.
psql "create database $database"
gdctl migrate up > migrate.log
connection=" $GD_DATABASE"
host=${connection#* host=}
psql "$(grep -o "create role \"$role\" login" "$tree/docs/run/operations.md")"
grep '^grant .* to worker;$' "$tree/docs/run/security.md" > grants.sql
sed -i "s/ to worker;/ to \"$role\";/" grants.sql
"$GD_TEST_POSTGRES_BIN/psql" -Xq -v ON_ERROR_STOP=1 -d "$GD_DATABASE" -f grants.sql > grants.log 2>&1 ||
  fail "the rights"
env GD_WORKER="$scratch/embedded --scheduler.max-threads=4" PGHOST="${host%% *}" PGUSER="$role" \
  PGDATABASE="$database" bash -c "exec $command" > worker.out 2> worker.log &
worker=$!
is_paid() { grep -q 'order 42 is instance .*, and paid' worker.out; }
is_done() { gdctl list --status 'done' --json | grep -q '"Checkout"'; }
wait_until is_paid
wait_until is_done
[[ -n $(gdctl nodes --json) ]] || fail "no node is known"
kill -s "$(says KillSignal)" "$worker"
code=0
wait "$worker" || code=$?
worker=
[[ $code == 0 ]] || fail "stopped, it ends with $code"
[[ -z $(gdctl nodes --json) ]] || fail "it has gone without a word"

# -- removed -------------------------------------------------------------------

in_root --purge gdctl libgen-durable-dev libgen-durable-doc libgen-durable0.1
left=$(find "$root" -mindepth 1 -path "$root/var/lib/dpkg" -prune -o -mindepth 1 ! -path "$root/var*" -print)
[[ -z $left ]] || fail "what is left: $left"
