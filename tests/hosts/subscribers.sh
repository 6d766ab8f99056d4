#!/usr/bin/env bash
# A reader on host2, outside the job, reads the publication of rank 0 on host1 up to the last version, with the address
# from a file or given in either address family.
#   On host1: subscribers.sh RANKS_SH TRAIN_CHARLM ROLLOUT_CHARLM TEXT
set -euo pipefail
ranks_sh=$1 train=$2 rollout=$3 text=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$folder/token")
export WEFT_SUBSCRIBE_TOKEN_FILE=$folder/token
status=0
for WEFT_SUBSCRIBE_ADDR in "$folder/address" 10.78.1.1:29511 '[fd78:1::1]:29512'; do
  export WEFT_SUBSCRIBE_ADDR
  on host2 "$rollout" --text "$text" --characters 20 --do-not-judge >"$folder/subscriber" 2>&1 &
  subscriber=$!
  bash "$ranks_sh" 2 "$train" --text "$text" --publish 4 --readers 1 --steps 20 --hidden 32 --batch 8 --sample 0 \
    >"$folder/job" 2>&1 || status=1
  wait "$subscriber" || status=1
  grep -E '^publish' "$folder/job" || status=1
  grep -E '^version +5 \(step +20' "$folder/subscriber" || status=1
  ((status == 0)) || { cat "$folder/job" "$folder/subscriber"; exit 1; }
done
