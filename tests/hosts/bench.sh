#!/usr/bin/env bash
# On host1 of two hosts: weft-bench tells the congestion control, and each way in which the limit was tried.
#   bench.sh WEFT_BENCH
set -euo pipefail
bench=$1
name=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  cat "$folder"/*
  echo "failed: $*"
  exit 1
}
# measure WORK SIZES WAY...: these ways of the limit are in the JSON
measure() {
  local work=$1 sizes=$2 way
  shift 2
  "$bench" "$work" --quick --pairs 1 --peers none --sizes "$sizes" --json "$folder/json" --csv "$folder/csv" \
    >"$folder/table" 2>&1 || fail "$work ended with $?"
  head -n 1 "$folder/table"
  grep -q "^$work, TCP under $name: " "$folder/table" || fail "$work: the table does not name $name"
  grep -q "\"congestion_control\": \"$name\"" "$folder/json" || fail "$work: JSON does not name $name"
  [[ $(grep -c ",$name\$" "$folder/csv") == "$(($(wc -l <"$folder/csv") - 1))" ]] || fail "$work: CSV does not name $name"
  for way in "$@"; do
    grep -q "\"limit_$way\": [0-9]" "$folder/json" || fail "$work: the limit was not tried $way"
  done
}
measure wire 8,1m whole polled low_water file pieces
measure all_reduce 512k unbounded file ahead_64k ahead_256k
measure broadcast 64k whole polled low_water file
measure ps_dense 256k whole polled low_water file pieces
