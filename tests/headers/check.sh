#!/usr/bin/env bash
# usage: check.sh COMPILER [ARGUMENT...] -- HEADER...
#
# Every header has to compile on its own, and none may include a header that
# brings all of CAF with it: such a one costs every file of a user's seconds.
set -euo pipefail

compiler=()
while [[ $1 != -- ]]; do
  compiler+=("$1")
  shift
done
shift

if grep -En '^#[[:space:]]*include[[:space:]]*[<"]caf/(.*/)?all\.hpp' "$@"; then
  echo "these bring all of CAF with them: include what is needed" >&2
  exit 1
fi

# What a header includes first is compiled on its own with it.
declare -A covered
for header in "$@"; do
  first=$(grep -m1 '^#include' "$header" || true)
  [[ ! $first =~ \<gd/(.*)\> ]] || covered[${BASH_REMATCH[1]}]=1
done

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
for header in "$@"; do
  name=${header##*/gd/}
  if [[ ! ${covered[$name]-} ]]; then
    source=$scratch/${name//\//_}.cpp
    # Twice: it guards itself.
    printf '#include <gd/%s>\n#include <gd/%s>\n' "$name" "$name" > "$source"
    printf '%s\0' "$source"
  fi
done \
  | xargs -0 -r -P 2 -I{} "${compiler[@]}" -c {} -o {}.o
