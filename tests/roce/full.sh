#!/usr/bin/env bash
# On this machine: runs a command only in full test runs.
set -euo pipefail
if [[ ${WEFT_TEST_FULL-} != 1 ]]; then
  echo 'skipped: a long cut (./dev test --full)'
  exit 77
fi
exec "$@"
