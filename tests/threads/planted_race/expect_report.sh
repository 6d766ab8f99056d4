#!/bin/sh
# Passes only if the program ends with ThreadSanitizer's exit code and the report shows the planted
# race, not some other one: expect_report.sh WRITING_FUNCTION PROGRAM [ARG ...]
writer=$1
shift
# With the longest history: otherwise a busy writer soon overwrites the record of where it wrote from.
report=$(TSAN_OPTIONS="exitcode=66 history_size=7 halt_on_error=0 $TSAN_OPTIONS" "$@" 2>&1)
code=$?
printf '%s\n' "$report" | head -n 60
if [ "$code" -ne 66 ]; then
  echo "failed: exit code $code instead of 66: the planted race was not reported"
  exit 1
fi
for part in "data race" "$writer" read_without_waiting; do
  case $report in
    *"$part"*) ;;
    *)
      echo "failed: the report does not mention '$part'"
      exit 1
      ;;
  esac
done
