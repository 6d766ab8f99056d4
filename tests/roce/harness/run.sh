# Talks to the guests' agents: a command with its output, its end and its deadline. Sourced by `guests`.
# shellcheck shell=bash

tell() { printf '%s\n' "$2" 1<>"$state/agent$1.in" >&1; } # tell NODE LINE

# Says how a node was lost, and prints the end of its kernel's console.
lost() { # lost NODE WHY
  say "node$1 $2; the end of its console:"
  tail -n 40 "$state/console$1" >&2 2>/dev/null || true
  cat "$state/emulator$1" "$state/keeper.log" >&2 2>/dev/null || true
}

# Waits for the agent's answer to ID, and leaves its words in $answer. Calls `meanwhile` several times a second.
#   await NODE ID SECONDS: 1 if time is up, 2 if the guest ended
await() {
  local node=$1 id=$2 deadline=$((SECONDS + $3)) line='' part port
  exec {port}<>"$state/agent$node.out"
  while :; do
    if IFS= read -r -t 0.2 -u "$port" part; then
      line+=$part
      answer=${line#* }
      [[ ${line%% *} != "$id" ]] || break
      line=''
      continue
    fi
    line+=$part # time may be up in the middle of a line
    meanwhile
    if [[ -e $state/ended$node ]] || ! alive; then
      exec {port}>&-
      return 2
    fi
    if ((SECONDS >= deadline)); then
      exec {port}>&-
      return 1
    fi
  done
  exec {port}>&-
}
meanwhile() { :; }

# Sends the same request to all guests at the same time.
ask_all() { # ask_all WHAT ARGUMENT SECONDS
  local node id=$BASHPID.$RANDOM outcome
  for ((node = 0; node < nodes; node++)); do tell "$node" "$id $1 $2"; done
  for ((node = 0; node < nodes; node++)); do
    outcome=0
    await "$node" "$id" "$3" || outcome=$?
    ((outcome != 1)) || lost "$node" "did not answer in $3 s"
    ((outcome != 2)) || lost "$node" "ended"
    ((outcome == 0)) || return 125
    [[ $answer == ready ]] || die 125 "node$node: $answer"
  done
}

# Makes the guests ready: alive and as new, by a boot if needed.
ready() { # ready LOSS
  local node
  if alive; then
    source "$state/settings"
    for ((node = 0; node < nodes; node++)); do
      (qmp "$node" cont && cable "$node" net true && cable "$node" second true) || break
    done
    if ((node == nodes)) && ask_all prepare "$1" "$answer_seconds"; then return; fi
    say "booting again"
    stop_keeper
  fi
  boot
  [[ -z $1 ]] || ask_all prepare "$1" "$answer_seconds"
}

run() {
  local on=0 loss='' seconds=300 variables=() name
  while (($#)); do
    case $1 in
      --on) on=$2 ;;
      --loss) loss=$2 ;;
      --seconds) seconds=$2 ;;
      --env) variables+=("$2") ;;
      --) shift && break ;;
      -*) die 2 "run has no option '$1'" ;;
      *) break ;;
    esac
    shift 2
  done
  (($#)) || die 2 "run what?"
  if [[ -n $state ]]; then
    kept
    if [[ -e $state/skipped ]]; then
      cat "$state/skipped"
      exit 77
    fi
    exec {turn}>"$state/turn"
    flock "$turn" # one command at a time
    ready "$loss"
  else
    owner=$BASHPID
    trap 'stop_keeper; rm -rf "$state"' EXIT
    up >/dev/null
    ready "$loss"
  fi
  ((on < nodes)) || die 2 "there is no node$on"

  local job id answer='' outcome=0 status stdout stderr
  job=$(mktemp -d "$state/share/XXXXXXXX")
  id=${job##*/}
  mkdir "$job/out"
  : >"$job/stdout"
  : >"$job/stderr"
  for name in $(compgen -e WEFT_); do
    [[ $name == WEFT_GUESTS* ]] || variables+=("$name=${!name}")
  done
  {
    printf 'cd %q || exit 126\n' "$PWD"
    ((${#variables[@]} == 0)) || printf 'export %q\n' "${variables[@]}"
    printf 'exec'
    printf ' %q' "$@"
    echo
  } >"$job/command"

  exec {stdout}<"$job/stdout" {stderr}<"$job/stderr"
  meanwhile() {
    cat <&"$stdout"
    cat <&"$stderr" >&2
  }
  trap 'tell "$on" "$id end"; exit 130' INT
  trap 'tell "$on" "$id end"; exit 143' TERM
  tell "$on" "$id run"
  await "$on" "$id" "$seconds" || outcome=$?
  if ((outcome == 1)); then
    tell "$on" "$id end"
    if await "$on" "$id" "$answer_seconds"; then
      meanwhile
      say "the command was ended, since it took more than $seconds s"
      answer=124
      outcome=0
    fi
  fi
  meanwhile
  ((outcome != 1)) || lost "$on" "does not answer"
  ((outcome != 2)) || lost "$on" "ended before the command did"
  if rmdir "$job/out" 2>/dev/null; then :; else
    rm -rf guests.out
    cp -r "$job/out" guests.out
  fi
  rm -rf "$job"
  ((outcome == 0)) || { stop_keeper; exit 125; }
  exit "$answer"
}
