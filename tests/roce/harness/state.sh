# A set of guests and its folder: booting, ending, and the emulators' own controls. Sourced by `guests`.
# shellcheck shell=bash
state=${WEFT_GUESTS-}
cache=${WEFT_GUESTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp/weft-$EUID}/.cache}/weft-guests}
boot_seconds=240  # a machine that has other work may take five times as long as alone
answer_seconds=60 # to make guests as new, or to end a command

# Skips, saying why, where this machine can't run guests.
need_tools() {
  local tool package
  [[ $(uname -m) == x86_64 ]] || skip "guests are of this machine's kind, and only x86-64 was ever tried"
  while read -r tool package; do
    command -v "$tool" >/dev/null || skip "guests need $tool (Debian package $package)"
  done <<'TOOLS'
qemu-system-x86_64 qemu-system-x86
modprobe kmod
busybox busybox-static
cpio cpio
sshd openssh-server
ssh-keygen openssh-client
rdma iproute2
tc iproute2
ibv_devinfo ibverbs-utils
apt-get apt
dpkg dpkg
setpriv util-linux
TOOLS
}

alive() { # the keeper, and with it at least one guest
  [[ -e $state/alive ]] && ! flock -n "$state/alive" true
}

kept() {
  [[ -n $state ]] || die 2 "no guests are kept here: WEFT_GUESTS is not set (guests up)"
  [[ -e $state/settings ]] || die 2 "there are no guests in $state (guests up)"
}

# "PID START-TIME" of a process, which identifies the process even after its number was reused.
identity() {
  local fields
  read -r -a fields <"/proc/$1/stat" 2>/dev/null || die 2 "there is no process $1"
  echo "$1 ${fields[${#fields[@]} - 31]}"
}

# Stores the wanted guests' parameters and boots the guests.
up() {
  local fresh=
  if [[ -z $state ]]; then
    state=$(mktemp -d "${TMPDIR:-/tmp}/weft-guests.XXXXXX")
    fresh=1
  fi
  stop_keeper
  mkdir -p "$state"
  printf 'nodes=%q cpus=%q memory=%q mtu=%q\n' "$nodes" "$cpus" "$memory" "$mtu" >"$state/settings"
  identity "$owner" >"$state/owner"
  boot
  [[ -z $fresh ]] || echo "export WEFT_GUESTS=$state"
}

# Boots the guests of $state. Returns when they have answered.
boot() {
  local kernel node i started=$SECONDS
  rm -f "$state"/skipped
  if ! kernel=$(need_tools && "$BASH" "$here/harness/kernel.sh" "$cache"); then
    echo "$kernel" | tee "$state/skipped"
    [[ $kernel != skipped:* ]] || exit 77
    die 125 "no kernel for the guests"
  fi
  source "$state/settings"
  rm -rf "$state"/{share,started,ended*,agent*,control*,console*,net*,second*}
  mkdir -p "$state/share"
  cp "$here/harness/agent" "$state/share/"
  ssh-keygen -q -t ed25519 -N '' -C guests -f "$state/share/key"
  [[ -p $state/orders ]] || mkfifo "$state/orders"
  for ((node = 0; node < nodes; node++)); do mkfifo "$state"/{agent,control}"$node".{in,out}; done
  (
    # The keeper outlives the command that starts it, so it must not hold that command's lock.
    [[ -z ${turn-} ]] || exec {turn}>&-
    setsid "$BASH" "$here/harness/keeper" "$state" "$kernel" "$(<"$state/owner")" \
      </dev/null >"$state/keeper.log" 2>&1 &
  )
  for ((i = 0; i < 100; i++)); do
    [[ ! -e $state/started ]] || break
    sleep 0.1
  done
  [[ -e $state/started ]] || die 125 "the keeper does not start: $(<"$state/keeper.log")"
  ask_all prepare '' "$boot_seconds"
  for ((node = 0; node < nodes; node++)); do qmp "$node" qmp_capabilities; done
  say "$nodes of them up after $((SECONDS - started)) s"
}

# Ends the guests, if there are any.
stop_keeper() {
  local i
  alive || return 0
  echo end 1<>"$state/orders" >&1
  for ((i = 0; i < 100; i++)); do
    alive || return 0
    sleep 0.1
  done
  die 125 "the keeper of $state does not end"
}

down() {
  kept
  stop_keeper
  rm -rf "$state"
}

# Sends one command to an emulator's monitor and waits until the emulator has carried it out.
qmp() { # qmp NODE COMMAND [ARGUMENTS]
  local replies line id=$BASHPID.$RANDOM i
  [[ ! -e $state/ended$1 ]] || die 125 "node$1 has ended"
  exec {replies}<>"$state/control$1.out"
  printf '{"execute": "%s", "arguments": %s, "id": "%s"}\n' "$2" "${3:-{\}}" "$id" 1<>"$state/control$1.in" >&1
  while read -r -t 10 -u "$replies" line; do
    [[ $line != *"$id"* ]] || break
  done
  exec {replies}>&-
  [[ ${line-} != *'"error"'* ]] || die 125 "node$1: $2: $line"
  [[ ${line-} == *"$id"* ]] || die 125 "node$1's emulator does not obey ($2)"
  [[ $2 == quit ]] || return 0
  for ((i = 0; i < 100; i++)); do
    [[ ! -e $state/ended$1 ]] || return 0
    sleep 0.1
  done
  die 125 "node$1's emulator does not end"
}

cable() { # cable NODE net|second true|false: whether it is in
  [[ $2 == net || $2 == second ]] || die 2 "which cable? that of the second port is called second"
  control "$1" set_link "{\"name\": \"$2\", \"up\": $3}"
}

control() { # control NODE COMMAND [ARGUMENTS]
  kept
  [[ $1 == [01] && -p $state/control$1.in ]] || die 2 "which node? 0 or 1 of those that are up"
  qmp "$@"
}
