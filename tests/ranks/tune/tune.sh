#!/usr/bin/env bash
# weft-tune writes files that jobs read; other files and malformed rules are refused in one line.
#   tune.sh WEFT_TUNE MPIRUN [FLAG ...]
set -euo pipefail
program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  cat "$folder"/*
  echo "failed: $*"
  exit 1
}
# refused WHAT LINE NAME=VALUE: joining fails, and says so
refused() {
  if env "$3" "${@:4}" "$program" >"$folder/output" 2>&1; then fail "$1 was accepted"; fi
  grep -qF "$2" "$folder/output" || fail "$1: the error does not say '$2'"
  echo "$1: refused"
}

WEFT_FABRIC=tcp "$@" "$program" -o "$folder/costs" || fail 'weft-tune has failed'
grep -q '^tcp [0-9]' "$folder/costs" || fail 'it has written nothing of tcp'
WEFT_COLL_COSTS="$folder/costs" WEFT_COLL=all_reduce@1k..=ring "$@" "$program" >"$folder/again" ||
  fail 'what it has written is not read'
grep -q '^combine [0-9]' "$folder/again" || fail 'without -o it does not print what it finds'

sed 's/^tcp .*/tcp fast/' "$folder/costs" >"$folder/broken"
refused 'a broken file' 'line 5: "fast"' WEFT_COLL_COSTS="$folder/broken" "$@"
refused 'a missing file' "can't be read" WEFT_COLL_COSTS="$folder/none" "$@"
refused 'a typo in a rule' 'no algorithm is called "rings"' WEFT_COLL=all_reduce=rings "$@"
