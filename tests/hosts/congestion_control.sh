#!/usr/bin/env bash
# On host1 of two hosts whose TCP is under reno: the hosts are, ranks move data under it, and the doctor of each host
# tells what its TCP is under and which queueing discipline holds packets back.
#   congestion_control.sh TESTS_HOSTS WEFT_TOPO CONFORMANCE_RANKS
set -euo pipefail
here=$1 topo=$2 program=$3
setting=/proc/sys/net/ipv4/tcp_congestion_control
export WEFT_FABRIC=tcp WEFT_TIMEOUT=60s WEFT_ARENA_CHUNK=4m

fail() {
  echo "failed: $*"
  exit 1
}
# doctor HOST PATTERN: some line of the doctor of that host is of this pattern
doctor() {
  local report
  report=$(on "$1" "$topo" doctor) || true # it ends with 1 or 3 for what it finds
  grep -E "$2" <<<"$report" || fail "the doctor of $1 says nothing like '$2': $report"
}

for host in host1 host2; do
  [[ $(on $host cat $setting) == reno ]] || fail "$host is not under reno"
  doctor $host '^ok +tcp-congestion +reno'
done
bash "$here/ranks.sh" 2 "$program" carries_every_size >/dev/null || fail "under reno: ranks ended with $?"

if on host2 bash -c "echo bbr >$setting" 2>/dev/null; then
  doctor host1 '^ok +tcp-congestion +reno'
  doctor host2 '^warn +tcp-congestion +bbr'
else
  echo 'skipped: bbr (the kernel does not have it, or does not allow it)'
fi

if tc qdisc add dev eth0 root tbf rate 1gbit burst 64k latency 100ms 2>/dev/null; then
  doctor host1 '^warn +tcp-qdisc eth0 +tbf'
  doctor host2 '^ok +tcp-qdisc eth0'
else
  echo 'skipped: a queueing discipline (no tbf here)'
fi

status=0
said=$(env -u HOSTS_INSIDE bash "$here/hosts" -c none_has_this -- true) || status=$?
[[ $status == 77 && $said == 'skipped: '*none_has_this* ]] || fail "a wrong -c ended with $status: $said"
