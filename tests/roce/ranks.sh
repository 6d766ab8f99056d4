#!/usr/bin/env bash
# In a guest: runs a program as ranks under mpirun, all on this guest or half of them on each.
#   ranks.sh GUESTS RANKS PROGRAM [ARGUMENT...]
# The ranks see every WEFT_ variable of this environment.
set -euo pipefail
guests=$1 ranks=$2
shift 2
flags=(--oversubscribe --bind-to none -n "$ranks")
if ((guests == 2)); then
  ((NODES == 2)) || { echo 'skipped: there is only one guest' && exit 77; }
  flags+=(--host "node0:$(((ranks + 1) / 2)),node1:$((ranks / 2))")
fi
for name in $(compgen -e WEFT_); do flags+=(-x "$name"); done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || { echo 'skipped: no mpirun on this machine' && exit 77; }
exec "$mpirun" "${flags[@]}" "$@"
