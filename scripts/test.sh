# Runs the suites and sums up their outcomes. Sourced by ./dev.
# shellcheck shell=bash disable=SC2154

passed=0 failed=0 skipped=0
ahead='' # the process group that compiles ahead
table=() # finished rows of the closing table

# Runs one CTest label of one preset and adds its outcome to the totals of the row.
#   run_label PRESET LABEL [command before ctest...]
run_label() {
  local preset=$1 label=$2 reader=scripts/programs.awk
  shift 2
  # In these cases a CTest test is a whole GoogleTest program.
  ! among "$preset" release dev || among "$label" conformance cuda || reader=scripts/junit.awk
  local folder=build/$preset/results
  local junit=$folder/$label.xml outcomes=$folder/$label.txt
  mkdir -p "$folder"
  rm -f "$junit" "$outcomes"
  # CTest counts a skipped test as passed in its own summary, so its output goes to a file.
  "$@" ctest --test-dir "build/$preset" -L "^$label\$" -j "$jobs" --output-junit "$PWD/$junit" \
    --test-output-size-passed 1048576 --test-output-size-failed 1048576 \
    </dev/null >"$folder/$label.log" 2>&1 || true
  if [[ ! -s $junit ]]; then
    tail -n 40 "$folder/$label.log"
    printf 'failed\t%s\tctest ended without a result\n' "$label" >"$outcomes"
  else
    awk -f scripts/xml.awk -f "$reader" "$junit" >"$outcomes"
    awk -v show=failures -f scripts/xml.awk -f "$reader" "$junit"
  fi
  [[ -s $outcomes ]] || printf 'failed\t%s\tthe suite has no tests\n' "$label" >"$outcomes"
  take_outcomes "$outcomes" "$preset"
}

# Adds the outcomes in a file of "outcome, name, reason" lines to the row.
take_outcomes() {
  local outcome name reason where=''
  [[ $2 == release ]] || where="$2: "
  while IFS=$'\t' read -r outcome name reason; do
    case $outcome in
      passed) row_passed=$((row_passed + 1)) ;;
      failed) row_failed=$((row_failed + 1)) row_notes+=("FAILED  $where$name${reason:+ ($reason)}") ;;
      skipped) row_skipped=$((row_skipped + 1)) row_notes+=("skipped $where$name: $reason") ;;
    esac
  done <"$1"
}

note() { # note passed|failed|skipped NAME REASON: adds an outcome that is not from CTest
  local file
  file=$(mktemp)
  printf '%s\t%s\t%s\n' "$@" >"$file"
  take_outcomes "$file" release
  rm -f "$file"
}

# Prints a command prefix under which ThreadSanitizer programs of this build start, or fails. GCC 12's
# runtime does not start if the kernel randomises addresses widely; without randomisation it does.
tsan_prefix() {
  local probe prefix
  probe=$(mktemp -d)
  printf 'int main() { return 0; }\n' >"$probe/a.cpp"
  g++ -fsanitize=thread "$probe/a.cpp" -o "$probe/a" 2>/dev/null || { rm -rf "$probe"; return 1; }
  for prefix in env 'setarch -R'; do
    if $prefix "$probe/a" >/dev/null 2>&1; then
      rm -rf "$probe"
      printf '%s' "$prefix"
      return 0
    fi
  done
  rm -rf "$probe"
  return 1
}

# Compiles what the suite sanitizers needs while other suites run: they leave half of the processors' time. Its
# processes get only what nobody else wants. Errors are reported when the suite builds the rest.
build_ahead() {
  local preset
  for preset in asan-ubsan tsan; do mkdir -p "build/$preset"; done
  # A session of its own has a processor share of its own too, where the kernel groups by sessions.
  setsid chrt --idle 0 bash -c 'echo 19 2>/dev/null >/proc/self/autogroup
    for preset in asan-ubsan tsan; do
      cmake --preset "$preset" && cmake --build "build/$preset" -j "$1" --target in_process_tests
    done' build_ahead "$jobs" </dev/null >build/ahead.log 2>&1 &
  ahead=$!
  trap end_building_ahead EXIT
}

end_building_ahead() {
  [[ -n $ahead ]] || return 0
  kill -- -"$ahead" 2>/dev/null || true
  wait "$ahead" 2>/dev/null || true
  ahead=''
}

run_sanitizers() {
  local preset prefix label
  end_building_ahead
  for preset in asan-ubsan tsan; do
    prefix='env'
    if [[ $preset == tsan ]] && ! prefix=$(tsan_prefix); then
      note skipped tsan 'ThreadSanitizer programs do not start on this kernel'
      continue
    fi
    if ! (build "$preset" in_process_tests); then
      note failed "$preset" 'the build failed'
      continue
    fi
    for label in unit threads conformance cuda; do
      # One more at a time than there are processors: most programs wait now and then, and limits are wide here.
      # $prefix is unquoted on purpose: it may consist of a command and an argument.
      # shellcheck disable=SC2086
      jobs=$((jobs + 1)) run_label "$preset" "$label" $prefix
    done
    [[ $preset != tsan ]] ||
      note skipped 'tsan: simulated jobs, topology, tools, kernels' \
        'all on one thread: there are no races to find'
  done
}

# Runs weft's programs on aarch64, as far as QEMU's user-mode emulation resembles a kernel on such a machine.
# Memory ordering is the emulating machine's; the models in tests/models cover aarch64's.
run_aarch64() {
  local said label test reason emulated=()
  if ! said=$(tests/aarch64/sysroot build/aarch64-sysroot); then
    if [[ $said == 'skipped: '* ]]; then
      note skipped aarch64 "${said#skipped: }"
    else
      note failed aarch64 'the folder of arm64 packages could not be made'
    fi
    return
  fi
  if ! (build aarch64 in_process_tests); then
    note failed aarch64 'the build failed'
    return
  fi
  while IFS=$'\t' read -r test reason; do
    emulated+=("$test")
    note skipped "aarch64: $test" "$reason"
  done < <(grep -v '^#' tests/aarch64/not_in_emulation)
  for label in unit vectors threads conformance; do
    run_label aarch64 "$label" env GTEST_FILTER="-$(IFS=: && echo "${emulated[*]}")"
  done
}

# Compares what a suite took with its budget in docs/testing.md: above it, a line; above twice, a failure. Without
# a budget the suite fails, and long cuts have none.
check_budget() { # check_budget SUITE SECONDS
  [[ ${WEFT_TEST_FULL:-0} == 0 ]] || return 0
  local minutes
  minutes=$(awk -F '|' -v suite="$1" '/^## Budget/ { budgets = 1 } budgets && $2 ~ "^ *" suite " *$" { print $3 + 0; exit }' docs/testing.md)
  if [[ -z $minutes ]]; then
    note failed "$1" 'docs/testing.md has no budget for it'
  elif (($2 > 120 * minutes)); then
    note failed "$1" "took $2 s, more than twice its budget of $minutes min (docs/testing.md)"
  elif (($2 > 60 * minutes)); then
    row_notes+=("over its budget of $minutes min (docs/testing.md)")
  fi
}

run_suite() {
  local suite=$1 started=$SECONDS line
  row_passed=0 row_failed=0 row_skipped=0 row_notes=()
  say "suite $suite"
  case $suite in
    sanitizers | aarch64) "run_$suite" ;;
    *) run_label release "$suite" ;;
  esac
  check_budget "$suite" $((SECONDS - started))
  passed=$((passed + row_passed)) failed=$((failed + row_failed)) skipped=$((skipped + row_skipped))
  printf -v line '%-12s %7d %7d %8d %8d' "$suite" "$row_passed" "$row_failed" "$row_skipped" \
    $((SECONDS - started))
  table+=("$line")
  for line in "${row_notes[@]}"; do table+=("    $line"); done
}

run_tests() {
  local argument chosen=()
  for argument in "$@"; do
    if [[ $argument == --full ]]; then
      export WEFT_TEST_FULL=1
    elif among "$argument" "${suites[@]}" "${long_suites[@]}"; then
      chosen+=("$argument")
    else
      die "no suite is called '$argument'; there are: ${suites[*]} ${long_suites[*]}"
    fi
  done
  if ((${#chosen[@]} == 0)); then
    chosen=("${suites[@]}")
    [[ ${WEFT_TEST_FULL:-0} == 0 ]] || chosen+=("${long_suites[@]}")
  fi
  setup
  ! among install "${chosen[@]}" || need_packages "${install_packages[@]}"
  # Tests of these suites report missing packages themselves and are skipped.
  ! among unit "${chosen[@]}" || (need_packages "${unit_packages[@]}") || true
  ! among hosts "${chosen[@]}" || (need_packages "${hosts_packages[@]}") || true
  ! among roce "${chosen[@]}" || (need_packages "${roce_packages[@]}") || true
  ! among ranks "${chosen[@]}" || (need_packages "${slurm_packages[@]}") || true
  ! among ranks "${chosen[@]}" || (need_packages "${python_packages[@]}") || true
  ! among fuzz "${chosen[@]}" || (need_packages "${fuzz_packages[@]}") || true
  ! among aarch64 "${chosen[@]}" || (need_packages "${aarch64_packages[@]}") || true
  # Only these suites need nothing of the release build.
  [[ ${chosen[*]} == sanitizers || ${chosen[*]} == aarch64 ]] || build release
  ! among sanitizers "${chosen[@]}" || ((${#chosen[@]} == 1)) || build_ahead
  for argument in "${chosen[@]}"; do run_suite "$argument"; done
  printf '\n%-12s %7s %7s %8s %8s\n' suite passed failed skipped seconds
  printf '%s\n' "${table[@]}"
  printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $skipped
  ((failed == 0))
}
