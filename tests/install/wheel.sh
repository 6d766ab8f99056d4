#!/usr/bin/env bash
# Builds a wheel by ./dev wheel, which runs it in an empty virtual environment, alone and as four ranks. Its files must need
# no library beyond those that a wheel may expect. Then installs weft by `pip install .` with build isolation, as a user
# with the sources does, into a fresh virtual environment, where it must run too.
#   wheel.sh SOURCE_FOLDER MPIRUN...
set -euo pipefail
source=$1
mpirun=("${@:2}")

fail() {
  printf 'wheel: %s\n' "$*" >&2
  exit 1
}
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}

python=/usr/bin/python3
build=$source/build/wheel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/venv" 2>/dev/null || skip "$python has no venv (Debian: python3-venv)"
"$scratch/venv/bin/pip" download -q --no-deps -d "$scratch" cffi >"$scratch/log" 2>&1 ||
  skip "pip reaches no index of packages"

"$source/dev" wheel
wheel=$(echo "$build"/*.whl)
[[ $wheel == *-abi3-manylinux_* ]] || fail "it is not for every CPython, or no manylinux: $wheel"

"$python" -m zipfile -e "$wheel" "$scratch/files"
# manylinux promises these; Python itself needs expat, too.
expected='^(lib(c|m|dl|rt|pthread|resolv)\.so\.[0-9]+|ld-linux.*|libgcc_s\.so\.1|libstdc\+\+\.so\.6|libexpat\.so\.1)$'
while IFS= read -r file; do
  while IFS= read -r library; do
    [[ $library =~ $expected ]] || compgen -G "$scratch/files/*/$library" >/dev/null ||
      compgen -G "$scratch/files/weft/lib/$library" >/dev/null ||
      fail "${file#"$scratch/files/"} needs $library, which the wheel does not carry"
  done < <(readelf -d -W "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
done < <(find "$scratch/files" -type f \( -name '*.so*' -o -path '*/bin/*' \))
! find "$scratch/files" -name '*pmix*' | grep . || fail "the wheel carries the files above, which are the launcher's"

# pip gets the tools that build it by itself; the objects of the wheel's build are used again.
env -u PYTHONPATH CC=/usr/bin/cc CXX=/usr/bin/c++ "$scratch/venv/bin/pip" install \
  --config-settings=build-dir="$source/build/wheel-objects" "$source" >"$scratch/log" 2>&1 || {
  tail -n 40 "$scratch/log"
  fail 'pip install failed'
}
cd /
for tool in info status topo trace tune; do
  env -u PYTHONPATH PATH=/usr/bin:/bin "$scratch/venv/bin/python" -m weft "$tool" --help | grep -q "weft-$tool" ||
    fail "python -m weft $tool does not run"
done
run=(env -u PYTHONPATH "$scratch/venv/bin/python" "$source/tests/ranks/python/in_a_wheel.py")
"${run[@]}" || fail 'what pip has installed does not run'
((${#mpirun[@]} == 0)) || "${mpirun[@]}" -n 2 "${run[@]}" || fail 'what pip has installed does not run as two ranks'
