#!/usr/bin/env bash
# Runs collective_peer_stops on three ranks. The middle one is killed at the end, so the launcher's own exit status says
# nothing: the others' output says that they got their tensors back, or what failed.
set -uo pipefail
program=$1
shift
[[ $# -gt 0 && $1 != *NOTFOUND ]] || {
  echo 'skipped: no mpirun on this machine (./dev setup)'
  exit 77
}
output=$(timeout 100 "$@" --enable-recovery -n 3 "$program" 2>&1)
printf '%s\n' "$output"
[[ $output == *'rank 0 got its tensors back'* && $output == *'rank 2 got its tensors back'* &&
  $output != *' failed: '* ]]
