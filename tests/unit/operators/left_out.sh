#!/usr/bin/env bash
# A configure that leaves weft::operators out says so and why; one that must have it fails.
# Usage: left_out.sh SOURCE COMPILER
set -euo pipefail
source=$1 compiler=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A oneDNN whose interface is another one.
mkdir -p "$folder/include/oneapi/dnnl"
printf '#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 1\n' > "$folder/include/oneapi/dnnl/dnnl_version.h"
touch "$folder/libdnnl.so"

configure() { # settings; its text, and whether it succeeded
  rm -rf "$folder/build"
  cmake -S "$source" -B "$folder/build" -DCMAKE_CXX_COMPILER="$compiler" -DWEFT_TESTS=OFF -DWEFT_EXAMPLES=OFF \
    -DWEFT_BENCHMARKS=OFF "$@" > "$folder/text" 2>&1
}
expect() { # words
  # CMake breaks the lines of errors.
  tr -s '\n ' '  ' < "$folder/text" | grep -qF -- "$1" && return
  echo "no '$1' in:"
  cat "$folder/text"
  exit 1
}
unusable=(-DWEFT_ONEDNN_INCLUDE="$folder/include" -DWEFT_ONEDNN_LIBRARY="$folder/libdnnl.so")

configure -DWEFT_OPERATORS=OFF
expect "weft: left out: operators (WEFT_OPERATORS is OFF)"
configure -DWEFT_OPERATORS=AUTO "${unusable[@]}"
expect "weft: left out: operators (libdnnl-dev is not installed, or not oneDNN 2.6 to 2.x)"
if configure -DWEFT_OPERATORS=ON "${unusable[@]}"; then
  echo "configured with WEFT_OPERATORS=ON, without a oneDNN that can be used"
  exit 1
fi
expect "not found: oneDNN 2.6 or later, below 3 (WEFT_OPERATORS is ON)"
