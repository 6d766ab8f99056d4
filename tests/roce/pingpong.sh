#!/usr/bin/env bash
# In node0: a queue pair to node1 and back, with the bytes compared.
set -euo pipefail
options=(-d rxe0 -g 1 -c -n 200)
ssh node1 "timeout 25 ibv_rc_pingpong ${options[*]}" >/dev/null &
for ((i = 0; i < 60; i++)); do
  listening=$(ssh node1 'ss -Hltn sport = 18515')
  [[ -z $listening ]] || break
  sleep 0.5
done
ibv_rc_pingpong "${options[@]}" node1
wait $!
