#!/usr/bin/env bash
# On host1 of two hosts whose TCP is under reno: the hosts are, ranks move data under it, and the doctor of each host
# tells what its TCP is under and which queueing discipline holds packets back. Where hosts are under bbr, a job's
# connections have another in its place, or what was asked for; that, and one that no host has, is told by each host's
# first rank once.
#   congestion_control.sh TESTS_HOSTS WEFT_TOPO CONFORMANCE_RANKS RAILS_LOAD
set -euo pipefail
here=$1 topo=$2 program=$3 load=$4
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

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# is_told PATTERN [NAME=VALUE]: of four ranks on two hosts, only each host's first one tells
is_told() {
  local said
  said=$(env "${2-WEFT_TIMEOUT=60s}" bash "$here/ranks.sh" 4 "$program" carries_every_size 2>&1) || fail "ranks ended with $?: $said"
  for line in "host1:0] warning path: $1" "host2:2] warning path: $1"; do
    [[ $(grep -cE "$line" <<<"$said" || true) == 1 ]] || fail "not one line is like '$line': $said"
  done
  [[ $(grep -cE "$1" <<<"$said") == 2 ]] || fail "others tell '$1' too: $said"
}
is_told 'WEFT_TCP_CONGESTION="nosuch": this host does not have it .*connections have reno' WEFT_TCP_CONGESTION=nosuch

# are_under PATTERN [NAME=VALUE]: what the connections of a job have while it runs, at both ends
are_under() {
  local host job seen
  rm -f "$folder"/*
  env "${2-WEFT_LOG=warn}" bash "$here/ranks.sh" 2 "$load" soak 1 "$folder/seen" >"$folder/output" 2>&1 &
  job=$!
  until [[ -e $folder/seen.begun ]]; do
    kill -0 $job 2>/dev/null || fail "the job ended early: $(cat "$folder/output")"
    sleep 0.02
  done
  for host in host1 host2; do
    # Without the launcher's own, which are those within a host.
    on $host ss -Htnpi state established not src 127.0.0.0/8 >"$folder/$host"
  done
  wait $job || fail "the job ended with $?: $(cat "$folder/output")"
  for host in host1 host2; do
    # A line of the connection, and one of its state, which begins with the name.
    seen=$(grep -A 1 rails_load "$folder/$host" | grep -oE '^[[:space:]]+ (ts |sack )*[a-z]+' | grep -oE '[a-z]+$' | sort | uniq -c || true)
    echo "$host under $(on $host cat $setting): connections of ranks have $(xargs <<<"$seen")"
    [[ $seen =~ ^\ *[2-9]\ $1$ ]] || fail "connections of ranks on $host: $(cat "$folder/$host")"
  done
}
are_under reno
if on host1 bash -c "echo bbr >$setting" 2>/dev/null && on host2 bash -c "echo bbr >$setting"; then
  are_under '(cubic|reno)'
  is_told "TCP connections have (cubic|reno) in place of the system's bbr"
  are_under bbr WEFT_TCP_CONGESTION=system
  on host1 bash -c "echo reno >$setting"
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
