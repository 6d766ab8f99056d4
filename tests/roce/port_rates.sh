#!/usr/bin/env bash
# In node0: two ports of 50 Mbit/s, which is what emulation leaves to be limited, move 64 MiB at least 1.8 times as fast as
# one.
#   port_rates.sh RANKS_SH RAILS_LOAD
set -euo pipefail
ranks_sh=$1 load=$2
source "$(dirname "$0")/second_ports.sh"
for ((node = 0; node < NODES; node++)); do
  for port in eth0 eth1; do
    # A queue for all that may be under way: nothing is to be dropped.
    ssh "node$node" tc qdisc replace dev $port root netem rate 50mbit limit 100000
  done
done
# microseconds NIC: the time of a put
microseconds() {
  rm -f "$TMPDIR"/seen.*
  WEFT_NIC=$1 bash "$ranks_sh" "$NODES" 2 "$load" rate 1 "$TMPDIR/seen" >"$TMPDIR/output" 2>&1 ||
    { cat "$TMPDIR/output" && exit 1; }
  cat "$TMPDIR/seen.0"
}
one=$(microseconds rxe0)
((one > 10000000)) || { echo "one port is not slow: $one us" && exit 1; }
for try in 1 2 3; do
  two=$(microseconds rxe0,rxe1)
  echo "64 MiB by one port of 50 Mbit/s: $one us; by two: $two us"
  ((10 * one < 18 * two)) || exit 0
done
echo "two ports are not 1.8 times as fast as one, $try times"
exit 1
