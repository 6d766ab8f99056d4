#!/usr/bin/env bash
# Runs fencing on two ranks. The second is killed on purpose, so the launcher's own exit status says nothing: the first
# prints "held" or what failed.
set -uo pipefail
program=$1
shift
[[ $# -gt 0 && $1 != *NOTFOUND ]] || {
  echo 'skipped: no mpirun on this machine (./dev setup)'
  exit 77
}
output=$("$@" --enable-recovery -n 2 "$program" 2>&1)
printf '%s\n' "$output"
[[ $output == *'fencing held'* && $output != *'rank 0 failed'* ]]
