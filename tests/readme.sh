#!/usr/bin/env bash
# Types what README.md and docs/guide.md show, in their order, as a reader would who has
# cloned this and run tools/demo.
#
#   tests/readme.sh BUILD
#
# BUILD: where the programs are, in the place of build/release. Each line of a block that
# is marked ```sh is typed, into one shell for each document, and has to succeed. Blocks
# that a test cannot type are marked ```sh untyped, which no reader sees, as they see no
# <!-- typed: ... -->: what is typed there besides, such as what a reader does not notice
# to wait for.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}

# As in a clone.
mkdir "$scratch/build"
ln -s "$build" "$scratch/build/release"
for name in tools sql examples; do
  ln -s "$root/$name" "$scratch/$name"
done
chmod 755 "$scratch"
cd "$scratch"

# typed_of FILE: what is to be typed.
typed_of() {
  awk '
    /^```sh$/ { inside = 1; next }
    /^```/ { inside = 0; next }
    inside { print; next }
    /^<!-- typed: .* -->$/ { sub(/^<!-- typed: /, ""); sub(/ -->$/, ""); print }
  ' "$root/$1"
}

# type_all FILE TYPED UNTYPED: of which so many blocks are. What ends with an error ends it.
type_all() {
  local typed untyped code=0
  typed=$(grep -c '^```sh$' "$root/$1") || true
  untyped=$(grep -c '^```sh untyped$' "$root/$1") || true
  [[ $typed == "$2" && $untyped == "$3" && $(grep -c '^```sh' "$root/$1") == $((typed + untyped)) ]] ||
    fail "$1: expected $2 blocks that are typed and $3 that are not, got $typed and $untyped: say so in tests/readme.sh," \
      "when the new ones are marked as they should be"
  typed_of "$1" > typed
  ! grep -nE '(^|[ /])(sudo|apt|tools/(demo|setup|test|package))( |$)' typed ||
    fail "$1: that is not for a test to type; mark its block \`sh untyped\`"
  cat typed
  echo "-- and what is said:"
  # The end after ten minutes is a guard against hangs.
  env SHELLOPTS=errexit timeout 600 bash < typed > said 2>&1 || code=$?
  cat said
  [[ $code == 0 ]] || fail "$1: what is typed ends with $code"
  ! grep -E '^(psql:.*)?ERROR:' said || fail "$1: the server refuses something"
}

for name in "${!PG@}" GD_DATABASE GD_SCHEMA; do
  unset "$name"
done
type_all README.md 3 3
grep -q '^{"id":1}$' said || fail "README.md: the first order is not instance 1"
type_all docs/guide.md 3 3
