# The rules that a machine can decide. Sourced by ./dev.
# shellcheck shell=bash disable=SC2154,SC2086

own_files() { # own_files 'pattern'...: weft's files, without what builds leave behind
  local patterns=() pattern
  for pattern in "$@"; do patterns+=(-o -name "$pattern"); done
  find . \( -name build -o -name '.?*' \) -prune -o -type f \( "${patterns[@]:1}" \) -print |
    sed 's|^\./||' | sort
}

check_format() {
  say "format"
  local unformatted
  unformatted=$(own_files '*.cpp' '*.hpp' '*.h' '*.c' | xargs clang-format --dry-run 2>&1 |
    sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning:.*/\1/p' | sort -u)
  [[ -z $unformatted ]] || die "clang-format -i would change:" $unformatted
}

check_rooms() {
  say "rooms: direction of includes"
  own_files '*.cpp' '*.hpp' '*.h' '*.c' | python3 scripts/check_rooms.py
}

check_classes() {
  say "classes: methods and fields"
  own_files '*.hpp' | grep -v -e '^tests/' -e '^benchmarks/peers/' | python3 scripts/check_classes.py
}

# clang-tidy over what the release build compiles, read as a unity build: a header once for many files.
# What nobody links only with --full: tests, benchmarks and examples are three quarters of it, and the
# compiler's warnings see them too. (Including a .cpp is what such a build does. misc-unused-* look only
# into files that are read alone.)
check_tidy() {
  say "clang-tidy"
  local folder=build/tidy log=build/tidy/configure.log sources
  mkdir -p "$folder"
  if ! { cmake --preset release -B "$folder" &&
    cmake --build "$folder" --target weft_generated; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "clang-tidy: configuring $folder failed"
  fi
  sources=$(sed -n 's|^ *"file": "\(.*\.c[xp][xp]\)".*|\1|p' "$folder/compile_commands.json" | sort -u)
  [[ $1 == --full ]] ||
    sources=$(awk -v root="$PWD/" '{ file = substr($0, length(root) + 1) }
      file !~ "^(build/tidy/)?(tests|benchmarks|mpirun_examples)/"' <<<"$sources")
  [[ -n $sources ]] || die "clang-tidy: $folder/compile_commands.json names no source of weft"
  # clang prints how many warnings it suppressed in others' headers; that is no finding.
  printf '%s\n' "$sources" |
    xargs -P "$jobs" -n 1 clang-tidy --quiet -p "$folder" --checks=-bugprone-suspicious-include 2>&1 |
    { grep -v -E '^[0-9]+ warnings? (and [0-9]+ errors? )?generated\.$|^Suppressed|^Use -header-filter' || true; }
}

run_checks() {
  local check broken=() cut=${1:-}
  [[ -z $cut || $cut == --full ]] || die "check takes --full or nothing, not '$cut'"
  build release # warnings are errors there
  for check in check_format check_rooms check_classes check_tidy; do
    ($check "$cut") || broken+=("${check#check_}")
  done
  ((${#broken[@]} == 0)) || die "check: failed: ${broken[*]}"
  say "check: all is well"
}
