#!/usr/bin/env bash
# In node0: ranks on two guests put tensors between GPUs whose memory the driver of the RDMA device does not take, neither
# as a dma-buf nor by its address: tensors are staged and counted, and each rank's log has the driver's answers once a slot.
#   gpu_refusals.sh RANKS_SH GPU_JOB...
set -euo pipefail
ranks_sh=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
WEFT_LOG=info bash "$ranks_sh" 2 2 "$@" 1 staged memory >"$log" 2>&1 || { cat "$log" && exit 1; }
answers='ibv_reg_dmabuf_mr: Operation not supported; ibv_reg_mr: Bad address'
for rank in 0 1; do
  told=$(grep -F "$answers" "$log" | grep -F '"in"' | grep -c "weft\[[^]]*:$rank\]") || true
  ((told == 1)) || { cat "$log" && echo "rank $rank told it $told times" && exit 1; }
done
