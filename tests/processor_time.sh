#!/usr/bin/env bash
# Runs a command, says how much processor time it and all that it started took, and ends with its exit code.
#
# Usage: tests/processor_time.sh COMMAND [ARGUMENT...]
set -uo pipefail

TIMEFORMAT='%U %S'
exec 3>&1 4>&2
taken=$({ time "$@" >&3 2>&4; } 2>&1)
code=$?
awk '{ printf "processor time: %.0f s (own and children)\n", $1 + $2 }' <<<"$taken"
exit "$code"
