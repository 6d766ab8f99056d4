#!/bin/sh
# Jobs that srun starts: with PMIx; without PMIx, with a token; and with neither, which is refused.
#   srun_jobs.sh RANK_RING   (in its own Slurm: one_node.py)
ring=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "failed: $*" >&2
  exit 1
}

srun --mpi=list 2>&1 | grep -q pmix || {
  echo "skipped: this srun has no PMIx plugin"
  exit 77
}
srun --mpi=pmix -n 4 "$ring" || fail "srun --mpi=pmix: exit status $?"

(umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$folder/token")
WEFT_TOKEN_FILE=$folder/token WEFT_ADDR=127.0.0.1:$(($$ % 20000 + 10000))
export WEFT_TOKEN_FILE WEFT_ADDR
# shellcheck disable=SC2016
srun -n 4 sh -c 'WEFT_RANK=$SLURM_PROCID WEFT_SIZE=$SLURM_NTASKS exec "$0"' "$ring" ||
  fail "srun, ranks by a token: exit status $?"
unset WEFT_TOKEN_FILE WEFT_ADDR

srun -n 2 "$ring" >"$folder/refused" 2>&1 && fail "srun without PMIx began a job"
grep -q 'srun without PMIx' "$folder/refused" || {
  cat "$folder/refused"
  fail "srun without PMIx: the line does not say so"
}
