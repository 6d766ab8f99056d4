#!/usr/bin/env bash
# On host1 of two hosts whose TCP is under reno: weft-bench tells the congestion control, and each way in which the limit
# was tried.
#   bench.sh WEFT_BENCH
set -euo pipefail
bench=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  cat "$folder"/*
  echo "failed: $*"
  exit 1
}
# measure NAME SIZES WAY...: these ways of the limit are in the JSON
measure() {
  local name=$1 sizes=$2 way
  shift 2
  "$bench" "$name" --quick --pairs 1 --peers none --sizes "$sizes" --json "$folder/json" --csv "$folder/csv" \
    >"$folder/table" 2>&1 || fail "$name ended with $?"
  head -n 1 "$folder/table"
  grep -q "^$name, TCP under reno: " "$folder/table" || fail "$name: the table does not name reno"
  grep -q '"congestion_control": "reno"' "$folder/json" || fail "$name: JSON does not name reno"
  [[ $(grep -c ',reno$' "$folder/csv") == "$(($(wc -l <"$folder/csv") - 1))" ]] || fail "$name: CSV does not name reno"
  for way in "$@"; do
    grep -q "\"limit_$way\": [0-9]" "$folder/json" || fail "$name: the limit was not tried $way"
  done
}
measure wire 8,1m whole polled low_water file pieces
measure all_reduce 512k unbounded file ahead_64k ahead_256k
measure broadcast 64k whole polled low_water file
measure ps_dense 256k whole polled low_water file pieces
