#!/usr/bin/env bash
# In node0, on a network that loses packets: some are lost, but all data arrives.
#   loss.sh PINGPONG
set -euo pipefail
# Seldom the driver stops for good after a loss: three tries.
for try in 1 2 3; do
  ! timeout 30 bash "$1" || break
  ((try < 3))
done
statistics=$(tc -s qdisc show dev eth0)
echo "$statistics"
grep -q 'netem.* loss 5%' <<<"$statistics"
grep -Eq 'dropped [1-9]' <<<"$statistics"
