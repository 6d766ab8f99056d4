#!/usr/bin/env bash
# In node0: each guest has rxe0, which is active and has a RoCE v2 identifier (GID 1) of its IPv4 address.
set -euo pipefail
port=/sys/class/infiniband/rxe0/ports/1
for ((node = 0; node < NODES; node++)); do
  found=$(ssh "node$node" "cat $port/state $port/gid_attrs/types/1 $port/gids/1; ibv_devinfo -d rxe0 | grep state")
  echo "node$node: $found"
  grep -q '^4: ACTIVE$' <<<"$found"
  grep -q '^RoCE v2$' <<<"$found"
  grep -q "^0000:0000:0000:0000:0000:ffff:0a09:000$(printf %x $((10 + node)))\$" <<<"$found"
  grep -q 'PORT_ACTIVE' <<<"$found"
done
