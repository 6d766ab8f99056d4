# Reads CTest's JUnit file (with xml.awk). Prints one line per test, tab-separated:
#   passed|failed|skipped  name  reason
# With -v show=failures: the whole output of the failed tests instead.
# A skip's reason is GoogleTest's GTEST_SKIP() text, or the text after "skipped: " in the output.

/<testcase / {
  name = attribute($0, "name")
  status = attribute($0, "status")
  message = ""
  reason = ""
  output = ""
  after_skip = 0
  next
}

/<(skipped|failure)[ >]/ { message = attribute($0, "message"); next }

/<\/testcase>/ {
  if (status == "run") outcome = "passed"
  # Other tests that did not run (no executable, an unmet fixture) are failures.
  else if (status == "notrun" && message ~ /^SKIP_/) outcome = "skipped"
  else outcome = "failed"
  if (outcome == "skipped" && reason == "") reason = "no reason given"
  if (outcome == "failed") reason = message
  if (show != "failures") printf "%s\t%s\t%s\n", outcome, name, reason
  else if (outcome == "failed") printf "--- %s failed %s\n%s", name, message, output
  name = ""
  next
}

name != "" {
  line = $0
  sub(/^[ \t]*<system-out>/, "", line)
  sub(/<\/system-out>$/, "", line)
  line = unescape(line)
  output = output line "\n"
  if (after_skip && reason == "" && line !~ /^\[/) reason = line
  after_skip = line ~ /: Skipped$/
  if (reason == "" && match(line, /(^|[ :])skipped: /)) reason = substr(line, RSTART + RLENGTH)
}
