#!/usr/bin/env bash
# On host1 of two hosts with two networks: under load, the cable of one of two rails is out for a while, or for good.
# Nothing is lost, nothing hangs, counters and one line each tell, and the rail comes back. Two rails of 1 Gbit/s move
# a large tensor nearly twice as fast as one, and unequal ones as fast as both together. Two ranks take as many rails
# as both have.
#   rails.sh RANKS_SH RAILS_LOAD
# WEFT_TEST_FULL=1: 30 times each.
set -euo pipefail
ranks_sh=$1 load=$2
folder=$(mktemp -d)
job=
end() {
  [[ -z $job ]] || kill "$job" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
export WEFT_FABRIC=tcp WEFT_TIMEOUT=30s WEFT_LOG=info
# Rail 0 by eth1, as mpirun itself needs eth0.
export WEFT_IFACE=eth1,eth0 WEFT_RAILS=2

fail() {
  cat "$folder/output" "$folder"/seen.? 2>/dev/null || true
  echo "failed: $*"
  exit 1
}
# cut INTERFACE: no packet passes any more, in either direction
cut() {
  local host
  for host in host1 host2; do
    on $host nft -f - <<END
add table inet cable
add chain inet cable in { type filter hook input priority 0; }
add chain inet cable out { type filter hook output priority 0; }
add rule inet cable in iifname $1 drop
add rule inet cable out oifname $1 drop
END
  done
}
heal() { for host in host1 host2; do on $host nft delete table inet cable; done; }
# wait_for FILE...: the job writes them
wait_for() {
  local file until=$((SECONDS + 40))
  for file in "$@"; do
    until [[ -e $file ]]; do
      kill -0 "$job" 2>/dev/null || fail 'the job ended early'
      ((SECONDS < until)) || fail 'it hangs'
      sleep 0.02
    done
  done
}
# begin NAME=VALUE... -- ARGUMENT...: the load, as $job; $rails_of_1: rank 1's own WEFT_RAILS
rails_of_1=
# shellcheck disable=SC2016 # the inner shell expands
as_rank='[[ -z $0 || $OMPI_COMM_WORLD_RANK != 1 ]] || export WEFT_RAILS=$0; exec "$@"'
begin() {
  local settings=()
  while [[ $1 != -- ]]; do settings+=("$1") && shift; done
  shift
  rm -f "$folder"/*
  env "${settings[@]}" bash "$ranks_sh" 2 bash -c "$as_rank" "$rails_of_1" "$load" "$@" "$folder/seen" >"$folder/output" 2>&1 &
  job=$!
}
finish() {
  wait "$job" || fail "the job ended with $?"
  job=
}
# says COUNT PATTERN: COUNT lines of the job's output are of this pattern
says() {
  local found
  found=$(grep -cE "$2" "$folder/output" || true)
  ((found == $1)) || fail "$found lines, not $1, are of the pattern $2"
}
# seen WANTED: both ranks have seen this, and no round took long
seen() {
  local rank longest
  for rank in 0 1; do
    grep -q "^$1 " "$folder/seen.$rank" || fail "rank $rank has not seen $1"
    longest=$(sed 's/.*longest_ms \([0-9]*\).*/\1/' "$folder/seen.$rank")
    ((longest < 5000)) || fail "a round of rank $rank took $longest ms"
  done
}
# out_for_a_while INTERFACE RAIL SETTING
out_for_a_while() {
  begin "$3" -- soak 3.2
  wait_for "$folder/seen.begun"
  sleep "0.$((RANDOM % 4))"
  cut "$1"
  sleep 2
  heal
  wait_for "$folder"/seen.{0,1}
  finish
  seen 'lost 1 back 1 up 2'
  says 1 'rails to rank 1: 10\.78\.2\.1 to 10\.78\.2\.2, 10\.78\.1\.1 to 10\.78\.1\.2'
  says 2 "rail $2 to rank [01] .* is lost"
  says 2 "rail $2 to rank [01] is back"
}
# out_for_good INTERFACE RAIL SETTING
out_for_good() {
  begin "$3" -- soak 2
  : >"$folder/seen.stay"
  wait_for "$folder/seen.begun"
  sleep "0.$((RANDOM % 4))"
  cut "$1"
  wait_for "$folder"/seen.{0,1}
  heal # mpirun is to hear of the end
  finish
  seen 'lost 1 back 0 up 1'
  says 2 "rail $2 to rank [01] .* is lost"
}
# each WHAT INTERFACE RAIL SETTING
each() {
  local i times=1 begun=$EPOCHREALTIME
  [[ ${WEFT_TEST_FULL-0} != 1 ]] || times=30
  for ((i = 0; i < times; i++)); do "$@"; done
  echo "$*: held $times times, $(((${EPOCHREALTIME/./} - ${begun/./}) / 1000)) ms; $(<"$folder/seen.0")"
}

if on host2 nft add table inet cable 2>/dev/null; then
  on host2 nft delete table inet cable
  each out_for_a_while eth1 0 WEFT_CHECKSUM=0
  each out_for_a_while eth0 1 WEFT_ENCRYPT=1
  each out_for_good eth1 0 WEFT_CHECKSUM=1
  each out_for_good eth0 1 WEFT_CHECKSUM=0
  # A network that is silent from the start is left out, which is told.
  cut eth1
  begin WEFT_IFACE=eth0,eth1 -- soak 0.5
  wait_for "$folder"/seen.{0,1}
  heal
  finish
  seen 'lost 0 back 0 up 2'
  says 1 'rail 1 to rank 0 goes by .*: 10\.78\.2\.1 did not answer'
  echo 'a network that is silent from the start: held'
  # By default it is waited for by nobody, and joins when it answers.
  cut eth1
  begin WEFT_RAILS=auto -- soak 2.5
  wait_for "$folder/seen.begun"
  ! grep -q 'rail 0 to rank' "$folder/output" || fail 'a silent network has joined'
  heal
  wait_for "$folder"/seen.{0,1}
  finish
  seen 'lost 0 back 0 up 2'
  says 1 'rail 0 to rank 1: (10\.78\.2\.1|fd78:2::1) to '
  says 1 'rail 1 to rank 1: 10\.78\.1\.1 to 10\.78\.1\.2'
  echo 'a network that is silent when a job starts: held'
else
  echo 'skipped: cables (no nft here)'
fi

# agree RAILS RAILS_OF_RANK_1 WANTED: ranks that ask for these have as many as both
agree() {
  rails_of_1=$2
  begin "WEFT_RAILS=$1" -- soak 0.2
  wait_for "$folder"/seen.{0,1}
  finish
  rails_of_1=
  seen "lost 0 back 0 up $3"
}
agree 3 1 1
agree 1 3 1
agree 3 2 2
agree auto 4 2
agree auto 1 1
echo 'as many rails as both ranks have: held'
on host2 ip address flush dev eth1
agree auto auto 1
begin -- soak 0.2
wait_for "$folder"/seen.{0,1}
finish
seen 'lost 0 back 0 up 2'
says 1 'WEFT_IFACE=eth1,eth0: eth1 is left out: it is down, or has no address'
on host2 ip address add 10.78.2.2/24 dev eth1
echo 'a network on which one host has no address: left out'

# microseconds RAILS: the shortest time of a 64 MiB put
microseconds() {
  begin "WEFT_RAILS=$1" -- rate 4
  wait_for "$folder"/seen.{0,1}
  finish
  cat "$folder/seen.0"
}
if tc qdisc add dev eth1 root tbf rate 1gbit burst 256k latency 50ms 2>/dev/null; then
  for host in host1 host2; do
    on $host tc qdisc replace dev eth0 root tbf rate 1gbit burst 256k latency 50ms
    on $host tc qdisc replace dev eth1 root tbf rate 1gbit burst 256k latency 50ms
  done
  one=$(microseconds 1)
  ((one > 500000)) || fail 'the rails are not slow'
  # Other work of this machine may slow two rails down, and never makes them faster.
  for try in 1 2 3; do
    two=$(microseconds 2)
    echo "64 MiB by one rail of 1 Gbit/s: $one us; by two: $two us"
    ((10 * one < 18 * two)) || break
  done
  ((10 * one >= 18 * two)) || fail "two rails are not 1.8 times as fast as one, $try times"
  for host in host1 host2; do
    on $host tc qdisc replace dev eth0 root tbf rate 250mbit burst 64k latency 50ms
  done
  for try in 1 2 3; do
    two=$(microseconds 2)
    echo "64 MiB by rails of 1 Gbit/s and 250 Mbit/s: $two us"
    ((100 * two > 88 * one)) || break
  done
  # By their rates 80 % of the time of the fast one alone; in equal shares it would be 200 %.
  ((100 * two <= 88 * one)) || fail "the slow rail brings too little, or holds the fast one up, $try times"
else
  echo 'skipped: slow rails (no tbf here)'
fi
