# shellcheck shell=bash
# What scripts of this folder have in common: sourced, with the tree's root as the folder.

# built PURPOSE TARGET...: installs what they take (tools/setup), and builds them in build/release.
built() {
  tools/setup "$1"
  echo "Building in build/release; an interrupted build goes on where it was." >&2
  cmake --preset release > /dev/null
  cmake --build --preset release --parallel "$(nproc)" --target "${@:2}" >&2
}

# One statement; its rows, columns separated by spaces.
sql() {
  "$GD_TEST_POSTGRES_BIN/psql" -d "$GD_DATABASE" -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 "$@"
}

# found_program PURPOSE TARGET PATH: the program of that path in the folder `build`; where none is
# named, it is built.
found_program() {
  if [[ -z $build ]]; then
    built "$1" "$2"
    build=build/release
  fi
  program=$build/$3
  [[ -x $program ]] || { echo "tools/${0##*/}: there is no $program" >&2 && exit 2; }
}
