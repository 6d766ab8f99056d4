#!/usr/bin/env bash
# On host1: runs a program as ranks under mpirun, spread evenly over the hosts.
#   ranks.sh RANKS PROGRAM [ARGUMENT...]
# The ranks see every WEFT_ variable of this environment.
set -euo pipefail
ranks=$1
shift
slots=()
for ((i = 1; i <= HOSTS; i++)); do slots+=("host$i:$(((ranks + HOSTS - i) / HOSTS))"); done
flags=(--host "$(IFS=,; echo "${slots[*]}")" -n "$ranks")
for name in $(compgen -e WEFT_); do flags+=(-x "$name"); done
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
# shellcheck disable=SC2086 # several words
exec "$mpirun" $HOSTS_MPIRUN "${flags[@]}" "$@"
