#!/usr/bin/env bash
# Installs weft into an empty prefix, moves the prefix, and builds against it alone what users build: a
# trainer by find_package and by pkg-config, a C program by both. All must run as ranks of a job, and
# see nothing of what weft is made from, nor of the tree it was built in. The Python package, if it was built
# (WEFT_TEST_PYTHON names its interpreter), finds its library and the tools in the prefix.
#   consumer.sh BUILD_FOLDER SOURCE_FOLDER CXX CC MPIRUN...
set -euo pipefail
build=$1 source=$2 cxx=$3 cc=$4
mpirun=("${@:5}")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

# Nothing that the caller's environment says helps to find weft, or hides that it is not found.
unset LD_LIBRARY_PATH LIBRARY_PATH CPATH CPLUS_INCLUDE_PATH C_INCLUDE_PATH PKG_CONFIG_PATH \
  CMAKE_PREFIX_PATH weft_DIR

cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log" || {
  cat "$scratch/install.log"
  fail "cmake --install failed"
}
mv "$scratch/first" "$prefix"

# Neither text nor run paths lead back to where weft was built or installed first.
if grep -r -I -l -F -e "$build" -e "$source" -e "$scratch/first" "$prefix"; then
  fail "the files above name the folder that they were made in"
fi
while IFS= read -r file; do
  if readelf -d -W "$file" 2>/dev/null | grep -E 'R(UN)?PATH' |
    grep -F -e "$build" -e "$source" -e "$scratch"; then
    fail "$file has the run path above"
  fi
done < <(find "$prefix" -type f \( -name '*.so*' -o -path '*/bin/*' \))

# Every public header stands on its own and pulls in no header of a private dependency.
while IFS= read -r header; do
  flags=(-I"$prefix/include" -fvisibility=hidden -Wall -Wextra -Wpedantic -Werror)
  case $header in
    *.h) text=$scratch/header.c flags+=(-x c -std=c99) ;;
    *) text=$scratch/header.cpp flags+=(-std=c++20) ;;
  esac
  printf '#include "%s"\n' "${header#"$prefix/include/"}" >"$text"
  "$cxx" "${flags[@]}" -fsyntax-only "$text" || fail "$header does not compile on its own"
  "$cxx" "${flags[@]}" -M "$text" >"$scratch/seen"
  if grep -o -E '[^ ]*/(fmt|spdlog|pmix[^/ ]*|sodium|hwy|CLI|nlohmann|eigen3|dnnl)/[^ ]*' "$scratch/seen"; then
    fail "$header includes the private headers above"
  fi
done < <(find "$prefix/include" -name '*.hpp' -o -name '*.h')

# A program whose containers have another layout is refused when it is compiled, by whichever header it begins with.
while IFS= read -r header; do
  text=$scratch/header.cpp
  printf '#include <string>\n#include "%s"\n' "${header#"$prefix/include/"}" >"$text"
  "$cxx" -std=c++20 -I"$prefix/include" -M "$text" | grep -q weft/api.hpp || continue # plain values only
  for layout in _GLIBCXX_DEBUG _GLIBCXX_USE_CXX11_ABI=0; do
    if "$cxx" -std=c++20 -I"$prefix/include" "-D$layout" -E "$text" >/dev/null 2>"$scratch/refusal"; then
      fail "$header takes a program with $layout, whose containers have another layout"
    fi
    grep -q "${layout%=0}" "$scratch/refusal" || fail "$header refuses $layout without saying so"
  done
done < <(find "$prefix/include" -name '*.hpp')

# Runs a program as two ranks, or alone where no launcher is installed.
run_ranks() {
  local program=$1
  ldd "$program" | grep -F "libweft.so.4 => $prefix/" ||
    fail "$program does not load $prefix's library: $(ldd "$program" | grep weft)"
  ((${#mpirun[@]})) || return 0
  "${mpirun[@]}" -n 2 "$program" || fail "$program failed as two ranks"
}

if [[ -n ${WEFT_TEST_PYTHON-} ]]; then
  packages=$prefix/lib/python3/dist-packages
  for tool in info status topo trace tune; do
    (cd / && PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 PATH=/nowhere "$WEFT_TEST_PYTHON" -m weft "$tool" --help) |
      grep "weft-$tool" >/dev/null || fail "python -m weft $tool does not find the prefix's"
  done
  (cd / && PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 "$WEFT_TEST_PYTHON" -c 'import weft, os
with weft.World.join() as world: world.array(3)
print([line.split()[-1] for line in open("/proc/self/maps") if "/libweft" in line][0])') |
    grep -F "$prefix/lib" || fail "import weft does not load the prefix's library"
fi

# By CMake: copies, so that nothing can be found by being beside it.
cp -r "$source/mpirun_examples/link" "$scratch/trainer"
mkdir "$scratch/c_program"
cp "$source/tests/ranks/c_binding/put_wait.c" "$scratch/c_program"
cat >"$scratch/c_program/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(c_program LANGUAGES C)
find_package(weft 9.0 QUIET)
find_package(weft 0.1 QUIET COMPONENTS teapot)
if(weft_FOUND)
  message(FATAL_ERROR "a weft was found that there is not")
endif()
find_package(weft 0.1 REQUIRED COMPONENTS pslib)
add_executable(put_wait put_wait.c)
target_link_libraries(put_wait PRIVATE weft::weft)
TEXT
warnings='-Wall -Wextra -Werror'
for project in trainer c_program; do
  cmake -G Ninja -S "$scratch/$project" -B "$scratch/$project/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS="$warnings" -DCMAKE_C_FLAGS="$warnings" --no-warn-unused-cli
  cmake --build "$scratch/$project/build"
done
run_ranks "$scratch/trainer/build/line_fit"
run_ranks "$scratch/trainer/build/own_operator"
run_ranks "$scratch/c_program/build/put_wait"
for program in line_fit own_operator; do
  "$scratch/trainer/build/$program" || fail "$program failed as a world of one"
done

# The kernels, where they are built.
has_operators=0
[[ ! -f $prefix/include/weft/operators.hpp ]] || has_operators=1
if ((has_operators)); then
  mkdir "$scratch/one_step"
  cp "$source/tests/install/one_step.cpp" "$scratch/one_step"
  cat >"$scratch/one_step/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(one_step LANGUAGES CXX)
find_package(weft 0.1 REQUIRED COMPONENTS operators)
add_executable(one_step one_step.cpp)
target_link_libraries(one_step PRIVATE weft::operators)
TEXT
  cmake -G Ninja -S "$scratch/one_step" -B "$scratch/one_step/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$warnings" --no-warn-unused-cli
  cmake --build "$scratch/one_step/build"
  "$scratch/one_step/build/one_step" || fail "the program with weft::operators failed"
fi

# By pkg-config, which knows of no other package here, with plain compiler lines.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
read -r -a compile <<<"$(pkg-config --cflags weft) $warnings"
read -r -a link <<<"$(pkg-config --libs weft) -Wl,-rpath,$(pkg-config --variable=libdir weft)"
[[ $(pkg-config --modversion weft) == "$(sed -n 's/^project(weft VERSION \([^ ]*\).*/\1/p' "$source/CMakeLists.txt")" ]] ||
  fail "weft.pc has another version than the project"
"$cxx" -std=c++20 "${compile[@]}" "$scratch/trainer/main.cpp" "${link[@]}" -o "$scratch/line_fit"
"$cc" -std=c99 "${compile[@]}" "$scratch/c_program/put_wait.c" "${link[@]}" -o "$scratch/put_wait"
"$cxx" -std=c++20 -fvisibility=hidden "${compile[@]}" "$source/tests/install/catches_errors.cpp" \
  "${link[@]}" -o "$scratch/catches_errors"
"$scratch/catches_errors" || fail "weft::Error is not caught by its type"
if ((has_operators)); then
  read -r -a operators <<<"$(pkg-config --cflags --libs weft-operators) ${link[-1]}"
  "$cxx" -std=c++20 "${compile[@]}" "$source/tests/install/one_step.cpp" "${operators[@]}" -o "$scratch/one_step_too"
  "$scratch/one_step_too" || fail "the program with weft-operators.pc failed"
fi
run_ranks "$scratch/line_fit"
run_ranks "$scratch/put_wait"

((${#mpirun[@]})) || {
  echo 'skipped: no mpirun on this machine (./dev setup), so the programs were built but not run as ranks'
  exit 77
}
