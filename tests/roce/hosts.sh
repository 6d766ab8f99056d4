#!/usr/bin/env bash
# As a rank: half of the ranks run on each of the two guests, in order.
set -euo pipefail
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE is on $(hostname)"
[[ $(hostname) == node$((OMPI_COMM_WORLD_RANK * 2 / OMPI_COMM_WORLD_SIZE)) ]]
