# shellcheck shell=bash
# For tests with processes, which have a folder of their own with the logs: sourced.

fail() {
  echo "FAILED: $*"
  tail -n 20 ./*.log 2> /dev/null || true
  exit 1
}

# Tries something until it is so, for a minute at the most.
wait_until() {
  local i
  for ((i = 0; i < 600; ++i)); do
    ! "$@" || return 0
    sleep 0.1
  done
  fail "not in time: $*"
}
