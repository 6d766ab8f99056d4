#!/usr/bin/env bash
# In node0: gives each guest a second port on a network of its own, and runs ranks that use both.
#   two_ports.sh RANKS_SH RANKS PROGRAM [ARGUMENT...]
set -euo pipefail
ranks_sh=$1 ranks=$2
shift 2
sent() { cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts; }

source "$(dirname "$0")/second_ports.sh"
before=$(sent)
export WEFT_NIC=rxe0,rxe1
bash "$ranks_sh" "$NODES" "$ranks" "$@"
after=$(sent)
echo "packets sent by rxe1: $((after - before))"
((after - before > 1000)) || { echo 'the second port was not used' && exit 1; }
