#!/usr/bin/env bash
# Compiles a sample of another language against the C ABI, and runs it as two ranks, each of which must print the sums.
#   language.sh SAMPLE LIBRARY_FOLDER EXPECTED MPIRUN...
set -euo pipefail
sample=$1 library=$2 expected=$3
mpirun=("${@:4}")
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
((${#mpirun[@]})) || skip 'no mpirun on this machine (./dev setup)'
lines=$(wc -l <"$sample")
((lines <= 40)) || {
  printf '%s has %d lines, more than 40\n' "$sample" "$lines" >&2
  exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case $sample in
  *.rs)
    command -v rustc >/dev/null || skip 'no rustc on this machine'
    rustc --edition 2021 -D warnings -L "$library" -C link-arg="-Wl,-rpath,$library" -o "$scratch/put" "$sample"
    ;;
  *.f90)
    command -v gfortran >/dev/null || skip 'no gfortran on this machine'
    gfortran -fno-underscoring -Wall -Werror -J "$scratch" -o "$scratch/put" "$sample" -L "$library" -lweft \
      "-Wl,-rpath,$library"
    ;;
esac
"${mpirun[@]}" -n 2 "$scratch/put" | tee "$scratch/output"
for rank in 0 1; do
  grep -qF "rank $rank: $expected" "$scratch/output" || {
    printf 'rank %d did not print "%s"\n' "$rank" "$expected" >&2
    exit 1
  }
done
