#!/usr/bin/env bash
# Makes ready what guests boot: Debian's kernel as it is, and an initrd with the few modules that a guest needs.
#   kernel.sh CACHE
# Prints the folder in CACHE that holds `kernel` and `initrd`. The folder is named by the kernel's package, its
# version and the guests' init, so that another of these makes another folder. It appears at once and whole:
# any number may ask at the same time. Exit code 77 and a line `skipped: why` where there is no way to a kernel.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C
here=$(dirname "$(readlink -f "$0")")
cache=$1
modules=(virtio_pci virtio_net virtio_console virtio_rng 9pnet_virtio 9p overlay sch_netem
  crc32_generic crc32c_generic ib_uverbs rdma_rxe rdma_ucm)

skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}

# Uses an earlier kernel if the newest one is out of reach.
kept_or_skip() {
  local kept
  kept=$(find "$cache" -mindepth 1 -maxdepth 1 -type d -name "*.$ours" -print -quit)
  [[ -n $kept ]] || skip "$@"
  echo "$kept"
  exit
}

# The kernel's package, and the version that apt would install.
candidate() {
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
  [[ -n $package ]] || return 1
  version=$(apt-cache policy "$package" | awk '/Candidate:/ { print $2 }')
  [[ -n $version && $version != '(none)' ]]
}

mkdir -p "$cache"
ours=$(cat "$here/init" "$0" | cksum)
ours=${ours%% *}
if ! candidate && ((EUID == 0)); then apt-get -q update >/dev/null 2>&1 || true; fi
if ! candidate; then
  kept_or_skip "apt knows no package linux-image-amd64 here (apt-get update)"
fi
ready=$cache/${package}_${version//[^A-Za-z0-9.+-]/_}.$ours
if [[ ! -d $ready ]]; then
  exec 9>"$cache/lock"
  flock 9 # who comes second finds it made
fi
if [[ ! -d $ready ]]; then
  work=$(mktemp -d "$cache/making.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if ! (cd "$work" && apt-get -q -o APT::Sandbox::User="$(id -un)" download "$package=$version") >"$work/log" 2>&1; then
    kept_or_skip "the package $package can't be downloaded: $(grep -m 1 '^E:' "$work/log" || tail -n 1 "$work/log")"
  fi
  dpkg -x "$work"/*.deb "$work/tree"
  release=${package#linux-image-}
  depmod -b "$work/tree" "$release"
  mkdir -p "$work/initrd/bin" "$work/initrd/modules" "$work/ready"
  cp /bin/busybox "$work/initrd/bin/"
  install -m 755 "$here/init" "$work/initrd/init"
  for module in "${modules[@]}"; do
    modprobe -d "$work/tree" -S "$release" --show-depends "$module"
  done | awk '/^insmod/ && !seen[$2]++ { print $2 }' >"$work/files"
  while read -r file; do
    cp "$file" "$work/initrd/modules/"
    basename "$file"
  done <"$work/files" >"$work/initrd/modules/order"
  # Not compressed: an emulated processor unpacks slowly.
  (cd "$work/initrd" && find . | cpio -o -H newc --quiet) >"$work/ready/initrd"
  cp "$work/tree/boot/vmlinuz-$release" "$work/ready/kernel"
  mv -T "$work/ready" "$ready"
  # Removes older kernels, except ones that guests may have booted today.
  find "$cache" -mindepth 1 -maxdepth 1 -type d ! -path "$ready" ! -path "$work" -mtime +1 -exec rm -rf {} +
fi
echo "$ready"
