#!/usr/bin/env bash
# The policy-rc.d of tools/setup refuses to start servers for as long as the setup
# that wrote it runs, and then allows it and takes itself away.
set -euo pipefail

here=$(dirname "$0")
eval "$(sed -n '/^\(policy\|left_behind\)() {/,/^}/p' "$here/../tools/setup")"
scratch=$(mktemp -d)
owner=
trap '[[ -z $owner ]] || kill -KILL "$owner" 2> /dev/null || true; rm -rf "$scratch"' EXIT
guard=$scratch/policy-rc.d

sleep 300 &
owner=$!
policy "$owner" > "$guard"
chmod 755 "$guard"
code=0
"$guard" pgbouncer start || code=$?
[[ $code == 101 && -e $guard ]] || { echo "allows it, with $code, while setup runs"; exit 1; }

kill -KILL "$owner"
wait "$owner" 2> /dev/null || true
"$guard" pgbouncer start || { echo "refuses it when setup is gone"; exit 1; }
[[ ! -e $guard ]] || { echo "stays when setup is gone"; exit 1; }

# What earlier ones wrote is known, and nothing else is taken for it.
left_behind "$guard" && { echo "takes what is not there for an old one"; exit 1; }
echo $'#!/bin/sh\nexit 101' > "$guard"
left_behind "$guard" || { echo "does not know what earlier ones left behind"; exit 1; }
policy "$$" > "$guard"
left_behind "$guard" && { echo "takes its own for an old one"; exit 1; }

# Another process that has got the number.
policy "$$" | sed 's/= [0-9][0-9]* \]/= 1 ]/' > "$guard"
chmod 755 "$guard"
"$guard" pgbouncer start || { echo "takes another process for setup"; exit 1; }
