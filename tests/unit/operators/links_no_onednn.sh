#!/usr/bin/env bash
# Checks that programs load neither oneDNN nor the OpenMP that it brings.
#   links_no_onednn.sh "WITH" PROGRAM...
# WITH: a program that does load them; empty if the kernels are not built.
set -euo pipefail
with=$1
shift

loaded() { ldd "$1" | grep -E 'lib(dnnl|gomp|weft-operators)\.so'; }

[[ -z $with ]] || loaded "$with" >/dev/null || {
  echo "$with loads no oneDNN: this test would see nothing"
  exit 1
}
for program in "$@"; do
  ! loaded "$program" || {
    echo "$program loads the libraries above"
    exit 1
  }
done
