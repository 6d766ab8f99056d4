# In node0, sourced: gives each guest a second port, rxe1, on a network of its own.
# shellcheck shell=bash
for ((node = 0; node < NODES; node++)); do
  ssh "node$node" second-port
  for _ in {1..50}; do
    state=$(ssh "node$node" 'cat /sys/class/infiniband/rxe1/ports/1/state')
    [[ $state != '4: ACTIVE' ]] || break
    sleep 0.2
  done
  [[ $state == '4: ACTIVE' ]] || { echo "rxe1 of node$node is $state" && exit 1; }
done
