#!/usr/bin/env bash
# Installs weft into an empty prefix and builds, against that alone, the project that stands for a
# user's own; it must train, and see nothing of what weft is made from.
#   consumer.sh BUILD_FOLDER PROJECT_FOLDER COMPILER
set -euo pipefail
build=$1 project=$2 compiler=$3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" || {
  cat "$scratch/install.log"
  fail "cmake --install failed"
}

# Every public header stands on its own and pulls in no header of a private dependency.
while IFS= read -r header; do
  flags=(-I"$prefix/include" -Wall -Wextra -Wpedantic -Werror)
  case $header in
    *.h) source=$scratch/header.c flags+=(-x c -std=c99) ;;
    *) source=$scratch/header.cpp flags+=(-std=c++20) ;;
  esac
  printf '#include "%s"\n' "${header#"$prefix/include/"}" >"$source"
  "$compiler" "${flags[@]}" -fsyntax-only "$source" || fail "$header does not compile on its own"
  "$compiler" "${flags[@]}" -M "$source" >"$scratch/seen"
  if grep -o -E '[^ ]*/(fmt|spdlog|pmix[^/ ]*|sodium|hwy|CLI|nlohmann|eigen3)/[^ ]*' "$scratch/seen"; then
    fail "$header includes the private headers above"
  fi
done < <(find "$prefix/include" -name '*.hpp' -o -name '*.h')

# The copy, so that nothing can be found by being beside it.
cp -r "$project" "$scratch/project"
cmake -G Ninja -S "$scratch/project" -B "$scratch/build" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror'
cmake --build "$scratch/build"

"$scratch/build/line_fit" || fail "the trainer failed as a world of one"
