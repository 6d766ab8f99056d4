#!/usr/bin/env bash
# On host1 of two hosts with two networks: the settings for TCP do what they promise, and links that lose packets or
# are slow only cost time.
#   settings.sh RANKS_SH CONFORMANCE_RANKS
set -euo pipefail
ranks_sh=$1 program=$2
output=$(mktemp)
trap 'rm -f "$output"' EXIT
export WEFT_FABRIC=tcp WEFT_TIMEOUT=60s WEFT_ARENA_CHUNK=4m

fail() {
  cat "$output"
  echo "failed: $*"
  exit 1
}
# sent HOST INTERFACE: bytes so far
sent() { on "$1" cat "/sys/class/net/$2/statistics/tx_bytes"; }
# holds WHAT NAME=VALUE... -- BODY...
holds() {
  local what=$1 settings=()
  shift
  while [[ $1 != -- ]]; do settings+=("$1") && shift; done
  shift
  local begun=$EPOCHREALTIME
  env "${settings[@]}" bash "$ranks_sh" 2 "$program" "$@" >"$output" 2>&1 || fail "$what: it ended with $?"
  echo "$what: held, $(((${EPOCHREALTIME/./} - ${begun/./}) / 1000)) ms"
}

moves=(carries_every_size gets_whole_runs_and_strides lends_until_the_owner_has_read)

holds 'checksums' WEFT_CHECKSUM=1 -- "${moves[@]}"
holds 'encryption' WEFT_ENCRYPT=1 -- "${moves[@]}"

# A rail whose first answer is late, since this machine is busy, is left alone for a moment.
for try in 1 2 3; do
  before=$(sent host1 eth1)
  holds 'two rails' WEFT_RAILS=2 WEFT_CHECKSUM=1 -- "${moves[@]}"
  (($(sent host1 eth1) - before <= 4 << 20)) || break
  ((try < 3)) || fail 'the second rail has carried next to nothing'
done

# By default as many rails as the two hosts share networks.
# shellcheck disable=SC2016 # the inner shell expands
slow='mount -n --bind "$1" /sys/class/net/"$0"/speed; shift; exec "$@"'
# goes WHAT LEAST_ETH0 MOST_ETH0 LEAST_ETH1 MOST_ETH1 COMMAND...: MiB that host1 sends by each
goes() {
  local what=$1 most0=$3 eth0 eth1 least0=$2 least1=$4 most1=$5
  shift 5
  for try in 1 2 3; do
    eth0=$(sent host1 eth0) eth1=$(sent host1 eth1)
    WEFT_LOG=info bash "$ranks_sh" 2 "$@" "$program" "${moves[@]}" >"$output" 2>&1 || fail "$what: it ended with $?"
    eth0=$((($(sent host1 eth0) - eth0) >> 20)) eth1=$((($(sent host1 eth1) - eth1) >> 20))
    if ((eth0 >= least0 && eth0 <= most0 && eth1 >= least1 && eth1 <= most1)); then
      echo "$what: held, $eth0 and $eth1 MiB"
      return
    fi
  done
  fail "$what: $eth0 MiB by eth0, $eth1 by eth1"
}
goes 'two networks without a setting' 4 999 4 999 env
grep -q 'rail 1 to rank 0: 10\.78\.2\.2 to 10\.78\.2\.1' "$output" || fail 'the second rail is not told'
[[ $(grep -c 'rail . to rank .:' "$output") == 4 ]] || fail 'not each rail of each rank is told once'
printf '1000\n' >"$output.slow"
goes 'a slow network beside a fast one' 0 2 8 999 unshare --mount bash -c "$slow" eth0 "$output.slow"
! grep -q 'rail 1 to rank' "$output" || fail 'there is a second rail'
rm "$output.slow"
goes 'a network named alone' 0 2 8 999 env WEFT_IFACE=eth1
HOSTS=1 goes 'ranks of one host' 0 0 0 0 env
! grep -q 'rail 1 to rank' "$output" || fail 'ranks of one host have a second rail'
for host in host1 host2; do
  on $host ip link add docker0 type veth peer name inside
  on $host ip addr add 172.17.0.1/16 dev docker0
  on $host ip link set inside up
  on $host ip link set docker0 up
done
goes 'two networks beside a bridge that each host has' 4 999 4 999 env WEFT_IFACE=docker0,eth0,eth1
[[ $(grep -c 'network 172\.17\.0\.1/16 leads back to this host, as rank . has' "$output") == 2 ]] ||
  fail 'the bridge is not told once by each rank'
for host in host1 host2; do on $host ip link delete docker0; done

# Where descriptors run short, further rails go before the job does, and each rank tells so once.
# shellcheck disable=SC2016 # the inner shell expands
few='ulimit -n "$0"; exec "$@"'
for ((limit = 44; limit >= 32; limit -= 1)); do
  bash "$ranks_sh" 2 bash -c "$few" $limit "$program" counts_alike_at_both_ends >"$output" 2>&1 || fail "ulimit -n $limit"
  told=$(grep -c '2 networks are shared with rank ., and 1 of them used' "$output" || true)
  ((told == 0)) || break
done
((told == 2)) || fail "$told lines tell of descriptors for one rail"
echo "few descriptors: one rail with $limit"

before=$(sent host1 eth1)
holds 'IPv6 alone, by the second network' WEFT_IFACE=fd78:2::/64 -- "${moves[@]}"
(($(sent host1 eth1) - before > 4 << 20)) || fail 'WEFT_IFACE has not chosen the network'

# Rank 1 calls rank 0, which listens on both networks.
other=$(sent host1 eth0) before=$(sent host1 eth1)
WEFT_RAILS=2 bash "$ranks_sh" 2 bash -c '[[ $OMPI_COMM_WORLD_RANK != 1 ]] || export WEFT_IFACE=eth1; exec "$0" "$@"' \
  "$program" "${moves[@]}" >"$output" 2>&1 || fail "WEFT_IFACE of the rank that calls: it ended with $?"
(($(sent host1 eth1) - before > 4 << 20 && $(sent host1 eth0) - other < 2 << 20)) ||
  fail 'WEFT_IFACE of the rank that calls has not chosen the network'
echo 'WEFT_IFACE of the rank that calls: held'

if WEFT_IFACE=nosuch0 bash "$ranks_sh" 2 "$program" "${moves[0]}" >"$output" 2>&1; then
  fail 'WEFT_IFACE=nosuch0 was accepted'
fi
grep -q 'WEFT_IFACE="nosuch0"' "$output" || fail 'the error does not name it'
echo 'a wrong WEFT_IFACE: refused'

# loses PERCENT: of the packets that host2 receives over the second network
loses() {
  on host2 nft 'add table inet lossy; add chain inet lossy in { type filter hook input priority 0; }'
  on host2 nft add rule inet lossy in iifname eth1 numgen random mod 100 '<' "$1" drop
  holds "a network that loses $1 % of all packets" WEFT_IFACE=10.78.2.0/24 WEFT_DEAD_AFTER=3s -- \
    leaves_the_source_to_the_writer gets_whole_runs_and_strides
  on host2 nft delete table inet lossy
}
if on host2 nft add table inet lossy 2>/dev/null; then
  on host2 nft delete table inet lossy
  loses 3
  if [[ ${WEFT_TEST_FULL-0} == 1 ]]; then loses 1 && loses 5; fi
else
  echo 'skipped: loss (no nft here)'
fi
# winds NETWORK DELAY_MS JITTER_MS LOSS_PERCENT
winds() {
  local road said
  said=$(mktemp)
  python3 -B "$(dirname "$0")/winding_road.py" "$@" >"$said" &
  road=$!
  until grep -q ready "$said"; do
    kill -0 $road 2>/dev/null || fail 'there is no winding road'
    sleep 0.05
  done
  holds "a network that takes $2 to $(($2 + $3)) ms and loses $4 %" "WEFT_IFACE=$1.0/24" WEFT_DEAD_AFTER=3s -- \
    leaves_the_source_to_the_writer gets_whole_runs_and_strides
  kill $road
  wait $road || true
  tail -n 1 "$said"
  (($(tail -n 1 "$said" | sed 's/.*, \([0-9]*\) overtaken/\1/') > 100)) || fail 'hardly a frame was overtaken'
  rm -f "$said"
}
if [[ -c /dev/net/tun ]] && command -v python3 >/dev/null; then
  winds 10.78.9 5 10 0
  if [[ ${WEFT_TEST_FULL-0} == 1 ]]; then winds 10.78.8 20 40 2; fi
else
  echo 'skipped: delay and reordering (no /dev/net/tun or python3 here)'
fi
if tc qdisc add dev eth1 root tbf rate 100kbit burst 4k latency 100ms 2>/dev/null; then
  holds 'a network of 100 kbit/s' WEFT_IFACE=10.78.2.0/24 WEFT_DEAD_AFTER=3s -- counts_alike_at_both_ends
else
  echo 'skipped: a slow network (no tbf here)'
fi
