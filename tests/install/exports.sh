#!/usr/bin/env bash
# Checks the symbols that libweft.so exports: the marked names of include/weft and the functions of
# weft.h, all of one version, and nothing of the libraries that weft is made from. Every name that
# include/weft declares and a room defines must be marked.
#   exports.sh LIBRARY SOURCE_FOLDER ROOM.a...
set -euo pipefail
library=$1 source=$2
rooms=("${@:3}")
abi=$(sed -n "s/^set(WEFT_ABI \([0-9]*\)).*/\1/p" "$source/cmake/WeftInstall.cmake")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
broken=0
complain() {
  printf 'exports: %s\n' "$*" >&2
  broken=1
}

# weft::World, weft::pslib::make_shard_map, ...: what stands behind WEFT_API, with its namespace.
awk '
  /^namespace weft[a-z:]* \{/ { space = $2 }
  /^namespace detail \{/ { outer = space; space = space "::detail" }
  /^\}( |$)/ && outer != "" { space = outer; outer = "" }
  /^(class|struct) .*WEFT_API / { sub(/.*WEFT_API /, ""); print space "::" $1 }
  /^(\[\[.*\]\] )?WEFT_API / { sub(/\(.*/, ""); print space "::" $NF }
' "$source"/include/weft/*.hpp | sort -u >"$scratch/marked"
# The types and functions that are declared without the mark.
awk '
  /^namespace weft[a-z:]* \{/ { space = $2 }
  /WEFT_API/ { next }
  /^(class|struct) .*\{/ { sub(/ *(:.*|final.*)?\{.*/, ""); print space "::" $NF }
  /^[a-z].*\(/ && !/^(class|struct|enum|using|namespace|template|inline|constexpr) / {
    sub(/\(.*/, ""); print space "::" $NF
  }
' "$source"/include/weft/*.hpp | sort -u | comm -23 - "$scratch/marked" >"$scratch/unmarked"
grep -h -v '^ \*' "$source/bindings/c/include/weft.h" "$source"/bindings/c/include/weft/c/*.h |
  grep -o -E '\bweft_[a-z_]+\(' | tr -d '(' | sort -u >"$scratch/functions"
# "name node" of each C function in the version script. A release's node has the functions that it added.
awk '/^WEFT_/ { node = $1 } /^ *weft_/ { gsub(/[ ;]+/, "\n"); n = split($0, names, "\n")
  for (i = 1; i <= n; ++i) if (names[i] != "") print names[i], node }' \
  "$source/cmake/weft.map" | sort >"$scratch/nodes"
[[ -s $scratch/marked && -s $scratch/functions ]] || complain "the headers declare nothing"

# One "name version" a line; a special symbol of a class goes by the class.
nm -D --defined-only --with-symbol-versions "$library" | cut -d ' ' -f 3- |
  awk -F '@+' '{ print ($2 == "" ? "none" : $2), $1 }' | c++filt |
  sed -E 's/^([^ ]+) (typeinfo|typeinfo name|vtable) for /\1 /' >"$scratch/exported"

awk -v abi="WEFT_$abi" -v marked="$scratch/marked" -v functions="$scratch/functions" -v nodes="$scratch/nodes" '
  BEGIN {
    while ((getline line <marked) > 0) known[line] = 1
    while ((getline line <functions) > 0) known[line] = 1
    while ((getline line <nodes) > 0) { split(line, pair, " "); node[pair[1]] = pair[2] }
  }
  { version = $1; name = substr($0, length($1) + 2) }
  name == version || name ~ /^WEFT_/ { next }   # a version itself
  {
    # The longest known beginning that ends where a name ends.
    owner = name
    sub(/[(\[].*/, "", owner)
    while (!(owner in known) && sub(/::[^:]*$/, "", owner)) {}
    if (!(owner in known)) { print name " is exported, but nobody may use it"; next }
    seen[owner] = 1
    wanted = name in node ? node[name] : abi
    if (version != wanted) print name " has version " version " instead of " wanted
  }
  END { for (name in known) if (!(name in seen)) print name " is declared, but not exported" }
' "$scratch/exported" >"$scratch/complaints"
# Defined out of line (T: not an inline function's copy), so a program has to find it in the library.
nm -C "${rooms[@]}" 2>/dev/null | sed -n 's/^[0-9a-f]* T //p' | sort -u |
  awk -v unmarked="$scratch/unmarked" '
    BEGIN { while ((getline line <unmarked) > 0) known[line] = 1 }
    {
      owner = $0
      sub(/[(\[].*/, "", owner)
      if (owner in known || (sub(/::[^:]*$/, "", owner) && owner in known))
        print $0 " is declared in include/weft, but not marked WEFT_API"
    }' >>"$scratch/complaints"
while IFS= read -r line; do complain "$line"; done <"$scratch/complaints"

readelf -d -W "$library" >"$scratch/dynamic"
soname=$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' "$scratch/dynamic")
[[ $soname == libweft.so.$abi ]] || complain "the library calls itself $soname"

# docs/dependencies.md says why each of them is there.
expected='expat fmt hwloc hwy sodium spdlog xxhash c gcc_s m stdc++'
while IFS= read -r needed; do
  name=${needed#lib} name=${name%%.so*}
  [[ " $expected ld-linux-${name#ld-linux-} " == *" $name "* ]] || complain "the library needs $needed"
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$scratch/dynamic")

((broken == 0)) || exit 1
printf 'exports: %d symbols of %d public names\n' "$(wc -l <"$scratch/exported")" \
  "$(cat "$scratch/marked" "$scratch/functions" | wc -l)"
