# The checks of rules that a machine can decide. Sourced by ./dev.
# shellcheck shell=bash disable=SC2154,SC2086

own_files() { # own_files 'pattern'...: prints weft's files, without build outputs
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

check_words() {
  say "words: retired ones, how comments begin, archaisms in texts"
  own_files '*.cpp' '*.hpp' '*.h' '*.c' '*.py' '*.sh' '*.cmake' 'CMakeLists.txt' '*.md' | python3 scripts/check_words.py
}

# clang-tidy over the files that the release build compiles, as a unity build, so that each header is read
# once for many files. Files outside the library (tests, benchmarks and examples, three quarters of all) only
# with --full; compiler warnings cover them too. -bugprone-suspicious-include is off because a unity build
# includes .cpp files. (misc-unused-* checks look only at files that are read alone.)
check_tidy() {
  say "clang-tidy"
  local folder=build/tidy log=build/tidy/configure.log sources
  mkdir -p "$folder"
  if ! { cmake --preset release -B "$folder" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON &&
    cmake --build "$folder" --target weft_generated; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "clang-tidy: configuring $folder failed"
  fi
  sources=$(sed -n 's|^ *"file": "\(.*\.c[xp][xp]\)".*|\1|p' "$folder/compile_commands.json" | sort -u)
  [[ $1 == --full ]] ||
    sources=$(awk -v root="$PWD/" '{ file = substr($0, length(root) + 1) }
      file !~ "^(build/tidy/)?(tests|benchmarks|mpirun_examples)/"' <<<"$sources")
  [[ -n $sources ]] || die "clang-tidy: $folder/compile_commands.json names no source of weft"
  # clang counts the warnings it suppressed in other projects' headers; these are no findings.
  printf '%s\n' "$sources" |
    xargs -P "$jobs" -n 1 clang-tidy --quiet -p "$folder" --checks=-bugprone-suspicious-include 2>&1 |
    { grep -v -E '^[0-9]+ warnings? (and [0-9]+ errors? )?generated\.$|^Suppressed|^Use -header-filter' || true; }
}

run_checks() {
  local check broken=() cut=${1:-}
  [[ -z $cut || $cut == --full ]] || die "check takes --full or nothing, not '$cut'"
  build release # with warnings as errors
  for check in check_format check_rooms check_classes check_words check_tidy; do
    ($check "$cut") || broken+=("${check#check_}")
  done
  ((${#broken[@]} == 0)) || die "check: failed: ${broken[*]}"
  say "check: all is well"
}
