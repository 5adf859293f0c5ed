#!/usr/bin/env bash
# Types what README.md and the guide show, in their order, as a reader would who has cloned
# this and run tools/demo; or docs/tutorial.md, as one who has installed it.
#
#   tests/readme.sh BUILD [PREFIX]
#
# BUILD: where the programs are, in the place of build/release. PREFIX: where it is installed,
# in the place of ../gd: the tutorial is typed. Each line of a block that
# is marked ```sh is typed, into one shell for each document, and has to succeed. Blocks
# that a test cannot type are marked ```sh untyped, which no reader sees, as they see no
# <!-- typed: ... -->, in one line or in several: what is typed there besides, such as what a
# reader does not notice to wait for. A block behind <!-- file: NAME --> is written into that file before.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}

if [[ $# -gt 1 ]]; then
  prefix=$(cd "$2" && pwd)
  ln -s "$prefix" "$scratch/gd"
  ln -s "$root" "$scratch/gen_durable"
  mkdir "$scratch/refunds"
  cd "$scratch/refunds"
else # as in a clone
  mkdir "$scratch/build"
  ln -s "$build" "$scratch/build/release"
  for name in tools sql examples; do
    ln -s "$root/$name" "$scratch/$name"
  done
  cd "$scratch"
fi
chmod 755 "$scratch"

# write_files FILE: those that it shows.
write_files() {
  awk '
    /^<!-- file: .* -->$/ { name = $3; next }
    /^```/ { inside = name != "" && !inside; if (!inside) name = ""; next }
    inside { print > name }
  ' "$root/$1"
}

# typed_of FILE: what is to be typed.
typed_of() {
  awk '
    /^```sh$/ { inside = 1; next }
    /^```/ { inside = 0; next }
    inside { print; next }
    /^<!-- typed:$/ { hidden = 1; next }
    hidden && /^-->$/ { hidden = 0; next }
    hidden { print; next }
    /^<!-- typed: .* -->$/ { sub(/^<!-- typed: /, ""); sub(/ -->$/, ""); print }
  ' "$root/$1"
}

# expect_blocks FILE TYPED UNTYPED: of which so many blocks are.
expect_blocks() {
  local typed untyped
  typed=$(grep -c '^```sh$' "$root/$1") || true
  untyped=$(grep -c '^```sh untyped$' "$root/$1") || true
  [[ $typed == "$2" && $untyped == "$3" && $(grep -c '^```sh' "$root/$1") == $((typed + untyped)) ]] ||
    fail "$1: expected $2 blocks that are typed and $3 that are not, got $typed and $untyped: say so in tests/readme.sh," \
      "when the new ones are marked as they should be"
}

# type_all FILE TYPED UNTYPED: the same, and types them. What ends with an error ends it.
type_all() {
  local code=0
  expect_blocks "$@"
  typed_of "$1" > typed
  ! grep -n 'typed:' typed || fail "$1: a comment of what is typed stands within another"
  [[ $(grep -c '<!-- typed:' "$root/$1") == $(grep -c '^<!-- typed:\( .* -->\)\?$' "$root/$1") ]] ||
    fail "$1: <!-- typed: begins a line and ends it, or has --> on a line of its own"
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
if [[ $# -gt 1 ]]; then
  write_files docs/tutorial.md
  type_all docs/tutorial.md 9 1
  exit
fi
type_all README.md 3 2
grep -q '^{"id":1}$' said || fail "README.md: the first order is not instance 1"
type_all docs/guide/inserting-and-keys.md 3 0
for file in "$root"/docs/{concepts,index,guide/*,run/{configuration,events,metrics},distributed/{gateways,workers}}.md; do
  case ${file#"$root/docs/"} in
    guide/inserting-and-keys.md) ;; # typed
    guide/history-and-retention.md) expect_blocks "${file#"$root/"}" 0 2 ;;
    distributed/gateways.md) expect_blocks "${file#"$root/"}" 0 1 ;;
    *) expect_blocks "${file#"$root/"}" 0 0 ;;
  esac
done
