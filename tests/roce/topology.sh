#!/usr/bin/env bash
# weft-topo on a host with an RDMA device: it shows the device, and its doctor says when the link is taken
# away and when it is back.
#   topology.sh WEFT_TOPO
set -euo pipefail
topo=$1

fail() {
  printf 'topology: %s\n' "$*" >&2
  exit 1
}
doctor() { # doctor PATTERN: some line of it is of this pattern; its exit code is in $status
  status=0
  report=$("$topo" doctor) || status=$?
  grep -E "$1" <<<"$report" || fail "the doctor says nothing like '$1': $report"
}

shown=$("$topo" --json | python3 -c '
import json, sys
print(*((nic["name"], nic["state"], nic["usable"]) for nic in json.load(sys.stdin)["nics"]), sep="\n")')
grep -F "('rxe0', 'active', True)" <<<"$shown" || fail "rxe0 is not shown as usable: $shown"

doctor '^ok +port rxe0:1 +ACTIVE'
doctor '^ok +gid rxe0:1 +index 1 \(10\.9\.0\.1[01]\)'
doctor '^ok +rdma-rights rxe0'
((status < 3)) || fail "the doctor of a host that is well ends with $status: $report"

ip link set eth0 down
doctor '^fail +port rxe0:1 +DOWN'
((status == 3)) || fail "the doctor of a host without a link ends with $status: $report"
ip link set eth0 up
for _ in {1..50}; do
  grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state && break
  sleep 0.1
done
doctor '^ok +port rxe0:1 +ACTIVE'
