#!/bin/bash
# Runs a command in a control group whose memory is limited: in_control_group.sh BYTES COMMAND [ARG...]
bytes=$1
shift
skip() {
  echo "skipped: $*"
  exit 77
}
top=/sys/fs/cgroup/memory file=memory.limit_in_bytes # version 1
[ -d "$top" ] || top=/sys/fs/cgroup file=memory.max
group=$top/weft-test-$$
mkdir "$group" 2>/dev/null || skip "this user may not make a control group"
trap 'rmdir "$group"' EXIT
echo "$bytes" 2>/dev/null >"$group/$file" || skip "control groups here do not limit memory"
# The command runs in a separate process: the group must be empty to be removed.
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
