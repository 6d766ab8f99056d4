#!/usr/bin/env bash
# On host1: runs a program as ranks under mpirun, spread evenly over the hosts.
#   ranks.sh RANKS PROGRAM [ARGUMENT...]
# The ranks see every WEFT_ variable of this environment.
# It tells which congestion control the host's TCP is under.
set -euo pipefail
ranks=$1
shift
slots=()
for ((i = 1; i <= HOSTS; i++)); do slots+=("host$i:$(((ranks + HOSTS - i) / HOSTS))"); done
flags=(--host "$(IFS=,; echo "${slots[*]}")" -n "$ranks")
for name in $(compgen -e WEFT_); do flags+=(-x "$name"); done
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
echo "TCP of $(hostname) is under $(cat /proc/sys/net/ipv4/tcp_congestion_control)" >&2
# shellcheck disable=SC2086 # several words
exec "$mpirun" $HOSTS_MPIRUN "${flags[@]}" "$@"
