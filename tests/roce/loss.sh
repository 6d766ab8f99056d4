#!/usr/bin/env bash
# In node0, on a network that loses packets: some are lost, but all data arrives.
#   loss.sh PINGPONG
set -euo pipefail
bash "$1"
statistics=$(tc -s qdisc show dev eth0)
echo "$statistics"
grep -q 'netem.* loss 5%' <<<"$statistics"
grep -Eq 'dropped [1-9]' <<<"$statistics"
