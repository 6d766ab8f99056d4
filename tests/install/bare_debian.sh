#!/usr/bin/env bash
# Installs the packages into a bare Debian, as a user without weft's tree and without a compiler does: first weft-topo by
# itself, then the library and the tools, all of which must run; then the packages for building, and a trainer, which must
# train as two ranks; then everything of weft is removed, and nothing of it stays.
#   bare_debian.sh PACKAGES_FOLDER SCRATCH_FOLDER
# Given weft's sources in place of packages, it runs `./dev demo` there, which may take 3.5 minutes on two quiet
# processors, downloads included; only with --full (WEFT_TEST_FULL=1). Given a folder with a wheel, it installs that into a
# virtual environment of a later Debian, whose Python is another and which has none of the libraries that weft is built
# from, and runs it there alone and as four ranks; only with --full too.
# The system is made by debootstrap in SCRATCH_FOLDER from the archive that this machine's apt uses. All
# mounts are in a mount namespace of their own, which ends with this script however it ends.
set -euo pipefail
packages=$1 root=$2 log=$2.log

fail() {
  printf 'bare_debian: %s\n' "$*" >&2
  exit 1
}
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
step() { printf '%4d s: %s\n' "$SECONDS" "$*"; }

sources_given=0 wheel=
[[ ! -f $packages/dev ]] || sources_given=1
[[ $packages != */wheel ]] || wheel=$(compgen -G "$packages/*.whl") || skip "no wheel was built"
if { ((sources_given)) || [[ $wheel ]]; } && [[ ${WEFT_TEST_FULL:-0} == 0 ]]; then
  skip "the demo from a bare Debian, and the wheel in one, are long cuts (./dev test install --full)"
fi
if [[ ${3-} != inside ]]; then
  ((EUID == 0)) || skip "only root can make a system of its own to install packages into"
  command -v debootstrap >/dev/null || skip "debootstrap is not installed (./dev test install)"
  unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no mount namespace"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
    "$BASH" "$0" "$packages" "$root" inside &
  child=$!
  # Once the child has ended, nothing is mounted in the folder any more.
  clean() {
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    rm -rf --one-file-system "$root" "$log"
  }
  trap clean EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
  status=0
  wait "$child" || status=$?
  exit "$status"
fi

((sources_given)) || [[ $wheel ]] || compgen -G "$packages/*.deb" >/dev/null || skip "no packages were built"
command -v apt-get >/dev/null || skip "this machine has no apt, so no Debian archive is known"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
# One "deb URI SUITE COMPONENT" for each part of Debian that this machine installs from.
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' 'Origin: Debian' | sed 's|/ | |' | sort -u)
archive=$(awk -v suite="$suite" '$3 == suite && $4 == "main" { print $2; exit }' <<<"$sources")
[[ -n $archive ]] || skip "apt knows of no Debian archive on this machine (apt-get update)"
if [[ $wheel ]]; then
  suite=trixie sources="deb $archive trixie main"
fi
/usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file \
  "$archive/dists/$suite/InRelease" "$root/InRelease" >/dev/null 2>&1 ||
  skip "the Debian archive that apt uses can't be reached"
rm "$root/InRelease"

# In memory where there is plenty: quicker, and nothing can stay behind.
if (($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) > 6 * 1024 * 1024)); then
  mount -t tmpfs -o mode=755,size=3g tmpfs "$root"
fi
# debootstrap doesn't read apt's settings.
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
[[ -z ${http_proxy-} ]] || export http_proxy
[[ -z ${https_proxy-} ]] || export https_proxy
step "debootstrap"
debootstrap --variant=minbase "$suite" "$root" "$archive" >"$log" 2>&1 || {
  ! grep -q 'noexec or nodev' "$log" || skip "no device files can be made below $root"
  tail -n 20 "$log"
  fail "debootstrap failed"
}

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
printf '%s\n' "$sources" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|ftp)::' >"$root/etc/apt/apt.conf.d/90machine" || true
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [[ ! -f $file ]] || install -D -m 644 "$file" "$root$file"
done
# Nothing is to survive, and nothing is to be started.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"

inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" /bin/sh -euc "$1"
}
apt_install() {
  inside "apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends $1" >"$log" 2>&1 || {
    tail -n 30 "$log"
    fail "apt could not install $1"
  }
}

if ((sources_given)); then
  step "the demo"
  mkdir "$root/weft"
  tar -C "$packages" --exclude=./build --exclude=./.git -cf - . | tar -C "$root/weft" -xf -
  began=$SECONDS
  inside 'cd /weft && ./dev demo' >"$log" 2>&1 || {
    tail -n 30 "$log"
    fail "./dev demo failed"
  }
  took=$((SECONDS - began))
  tail -n 1 "$log"
  step "./dev demo took $took s on $(nproc) processors"
  ((took <= 210)) || fail "./dev demo took $took s, not 210"
  exit 0
fi

if [[ $wheel ]]; then
  step "python3 and mpirun"
  inside 'apt-get -q update' >"$log" 2>&1 || fail "apt-get update failed in the new system"
  apt_install 'python3-venv openmpi-bin'
  ! inside 'dpkg-query -W' | grep -E '^(libfmt|libspdlog|libsodium|libhwy)' ||
    fail "the new system has the libraries above, so it does not show that the wheel carries them"
  # The wheel's dependencies come from this machine, so the new system needs no index of packages.
  version=$(inside 'python3 -c "import sys; print(f\"{sys.version_info[0]}.{sys.version_info[1]}\")"')
  mkdir "$root/wheels"
  cp "$wheel" "$root/wheels"
  cp "$(dirname "$0")/../ranks/python/in_a_wheel.py" "$root/wheels"
  /usr/bin/python3 -m pip download -q -d "$root/wheels" --python-version "$version" --only-binary=:all: \
    cffi numpy >"$log" 2>&1 || skip "pip can't fetch cffi and numpy for Python $version"
  step "the wheel, in Python $version"
  inside '
    python3 -m venv /venv
    /venv/bin/pip install -q --no-index --find-links /wheels weft
    cd /
    for tool in info status topo trace tune; do /venv/bin/python -m weft $tool --help >/dev/null; done
    /venv/bin/python -m weft info | head -n 6
    /venv/bin/python /wheels/in_a_wheel.py
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4 /venv/bin/python /wheels/in_a_wheel.py' ||
    fail "the wheel does not run in Python $version"
  step "done"
  exit 0
fi

mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"
step "weft-topo alone, the library, and then the tools"
inside 'apt-get -q update' >"$log" 2>&1 || {
  tail -n 20 "$log"
  fail "apt-get update failed in the new system"
}
apt_install '/packages/weft-topo_*.deb'
inside 'weft-topo && weft-topo --json >/dev/null' || fail "weft-topo does not run"
# The doctor ends with 1 or 3 for what it finds.
inside 'weft-topo doctor || [ $? -ne 2 ]' || fail "weft-topo doctor does not run"
! inside 'dpkg-query -W' | grep -E 'libweft|ibverbs|pmix' || fail "weft-topo brought the packages above"
apt_install '/packages/libweft4_*.deb'
! inside 'ldd /usr/lib/*/libweft.so.4' | grep 'not found' || fail "libweft4 did not bring the libraries above"
apt_install '/packages/weft-tools_*.deb'
inside 'weft-info >/root/info && head -n 6 /root/info && weft-info --json >/dev/null' || fail "weft-info does not run"
inside 'ldconfig -p | grep -q "libweft\.so\.4 "' || fail "the loader does not know of libweft.so.4"
! inside 'dpkg-query -W' | grep -E -- '-dev(:|\b)' || fail "the library brought the -dev packages above"

! inside 'dpkg-query -W' | grep -E 'dnnl' || fail "the library and the tools brought the packages above"
apt_install '/packages/libweft-operators4_*.deb'
! inside 'ldd /usr/lib/*/libweft-operators.so.4' | grep 'not found' ||
  fail "libweft-operators4 did not bring the libraries above"

step "the -dev package and a compiler"
apt_install '/packages/libweft-dev_*.deb /packages/libweft-operators-dev_*.deb g++ cmake make pkg-config openmpi-bin'
step "a trainer, by CMake and by pkg-config"
inside '
  cd /root
  cp -r /usr/share/doc/libweft-dev/examples/link .
  cmake -S link -B build -DCMAKE_BUILD_TYPE=Release
  cmake --build build
  g++ -std=c++20 link/main.cpp $(pkg-config --cflags --libs weft) -o line_fit
  for program in build/line_fit ./line_fit build/own_operator; do
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 $program
  done' || fail "the trainer does not build or run"

step "nothing stays"
inside 'dpkg --purge libweft-operators-dev libweft-operators4 libweft-dev weft-tools weft-topo libweft4 >/dev/null'
# apt's and dpkg's own records of what was once there aside.
remains=$(cd "$root" && find etc lib usr var -name '*weft*' ! -path 'var/log/*' ! -path 'var/cache/apt/*')
[[ -z $remains ]] || fail "after the removal there are still: $remains"
step "done"
