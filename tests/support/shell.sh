# shellcheck shell=bash
# For tests with processes, which have a folder of their own with the logs: sourced.

fail() {
  echo "FAILED: $*"
  tail -n 20 ./*.log 2> /dev/null || true
  exit 1
}

# Tries something until it is so. The end after five minutes is a guard against hangs.
wait_until() {
  local i
  for ((i = 0; i < 3000; ++i)); do
    ! "$@" || return 0
    sleep 0.1
  done
  fail "not in time: $*"
}
