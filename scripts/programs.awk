# Reads CTest's JUnit file (with xml.awk) where each of its tests is a whole GoogleTest program. Prints one line per
# test of the programs, tab-separated:
#   passed|failed|skipped  program:name  reason
# With -v show=failures: the whole output of the failed tests instead.
# A program that ended other than by its tests' verdict is itself a failure. Its reason is the test that ran
# last, or what a sanitizer found and in which test, though that test passed. A command that is no GoogleTest
# program is one test; the text after "skipped: " in its output is the reason of a skip.

function tell(outcome, reason) {
  if (show != "failures") printf "%s\t%s:%s\t%s\n", outcome, program, test, reason
  else if (outcome == "failed") printf "--- %s:%s failed %s\n%s", program, test, reason, output
}

/<testcase / {
  program = attribute($0, "name")
  status = attribute($0, "status")
  message = ""
  test = ""
  output = reason = finding = report = ""
  told = failures = is_googletest = is_reporting = 0
  next
}

/<(skipped|failure)[ >]/ { message = attribute($0, "message"); next }

/<\/testcase>/ {
  skipped = status == "notrun" && message ~ /^SKIP_/
  if (!is_googletest && (status == "run" || skipped)) {
    test = "(the command)"
    ++told
    if (status == "run") tell("passed", "")
    else tell("skipped", reason == "" ? "no reason given" : reason)
    program = ""
    next
  }
  if (told == 0 || (status != "run" && !skipped && failures == 0)) {
    last = finding != "" ? finding : test == "" ? "after its last test" : "in " test
    output = report output
    test = "(the whole program)"
    tell("failed", message == "" ? "it ended " last : message ", " last)
  }
  program = ""
  next
}

program != "" {
  line = $0
  sub(/^[ \t]*<system-out>/, "", line)
  sub(/<\/system-out>$/, "", line)
  line = unescape(line)
  if (line ~ /^\[==========\]/) is_googletest = 1
  if (!is_googletest && match(line, /(^|[ :])skipped: /)) reason = substr(line, RSTART + RLENGTH)
  if (match(line, /^\[ RUN      \] /)) {
    test = substr(line, RLENGTH + 1)
    output = reason = ""
    after_skip = 0
  }
  output = output line "\n"
  if (line ~ /^WARNING: ThreadSanitizer|^==[0-9]+==ERROR: |: runtime error: /) is_reporting = 1
  if (is_reporting) report = report line "\n"
  if (line ~ /^SUMMARY: /) {
    is_reporting = 0
    finding = (test == "" ? "between tests" : "in " test) ", " line
  }
  if (after_skip && reason == "") reason = line
  after_skip = line ~ /: Skipped$/
  if (line !~ /^\[(       OK |  SKIPPED |  FAILED  )\] .* \([0-9]+ ms\)$/) next
  ++told
  if (line ~ /^\[       OK/) {
    tell("passed", "")
  } else if (line ~ /^\[  SKIPPED/) {
    tell("skipped", reason == "" ? "no reason given" : reason)
  } else {
    ++failures
    tell("failed", "")
  }
  test = output = ""
}
