#!/usr/bin/env bash
# Runs peer_status on seven ranks, some of which are killed on purpose, so the launcher's own exit status says nothing:
# the survivors print "held", or what failed.
#   peer_status.sh PROGRAM MPIRUN [FLAG ...]    on this host
#   peer_status.sh PROGRAM --hosts RANKS.SH    within its own network namespaces, a rank on each
set -uo pipefail
program=$1
shift
[[ $# -gt 0 && $1 != *NOTFOUND ]] || {
  echo 'skipped: no mpirun on this machine (./dev setup)'
  exit 77
}
if [[ $1 == --hosts ]]; then
  export HOSTS_MPIRUN="$HOSTS_MPIRUN --enable-recovery"
  output=$(bash "$2" 7 "$program" 2>&1)
  must=('rank 0 held' 'rank 1 held' 'rank 3 was fenced')
else
  output=$("$@" --enable-recovery -n 7 "$program" 2>&1)
  must=('rank 0 held' 'rank 1 held')
fi
printf '%s\n' "$output"
for line in "${must[@]}"; do
  [[ $output == *"$line"* ]] || { echo "missing: $line"; exit 1; }
done
[[ $output != *' failed: '* ]]
