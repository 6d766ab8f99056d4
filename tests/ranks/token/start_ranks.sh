#!/bin/sh
# Starts a job without a launcher on this host, as docs/operating.md shows it.
#   start_ranks.sh RANKS HOST:PORT TOKEN_FILE PROGRAM [ARGUMENT ...]
ranks=$1 WEFT_ADDR=$2 WEFT_TOKEN_FILE=$3
shift 3
export WEFT_ADDR WEFT_TOKEN_FILE WEFT_SIZE="$ranks"

rank=0 pids=
while [ "$rank" -lt "$ranks" ]; do
  WEFT_RANK=$rank "$@" &
  pids="$pids $!"
  rank=$((rank + 1))
done
status=0
for pid in $pids; do
  wait "$pid" || status=$?
done
exit "$status"
