#!/usr/bin/env bash
# Checks libweft-operators.so: it exports operators() of one version and nothing else, and loads the libraries that
# docs/dependencies.md names.
#   operators_exports.sh LIBRARY SOURCE_FOLDER
set -euo pipefail
library=$1 source=$2
abi=$(sed -n "s/^set(WEFT_ABI \([0-9]*\)).*/\1/p" "$source/cmake/WeftInstall.cmake")

exported=$(nm -D --defined-only --with-symbol-versions "$library" | cut -d ' ' -f 3- | c++filt)
expected="WEFT_$abi
weft::dataflow::operators(weft::dataflow::Kernels)@@WEFT_$abi"
[[ $(sed "s/^WEFT_$abi@.*/WEFT_$abi/" <<<"$exported" | sort) == "$(sort <<<"$expected")" ]] || {
  printf 'exported is:\n%s\ninstead of:\n%s\n' "$exported" "$expected"
  exit 1
}
needed=$(readelf -d -W "$library" | sed -n 's/.*(NEEDED).*\[lib\(.*\)\.so.*\]/\1/p' | grep -v '^ld-linux' | sort | tr '\n' ' ')
for name in $needed; do
  [[ " weft fmt dnnl gomp c gcc_s m stdc++ " == *" $name "* ]] || {
    echo "the library needs $name"
    exit 1
  }
done
[[ " $needed" == *' dnnl '* && " $needed" == *' weft '* ]] || {
  echo "the library needs $needed: neither oneDNN nor weft"
  exit 1
}
