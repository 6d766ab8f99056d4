#!/usr/bin/env bash
# Builds the Debian packages and looks at what they hold: every installed file is in exactly one of them,
# the library lies where the loader looks, and what a package needs is what it says.
#   packages.sh SOURCE_FOLDER
set -euo pipefail
source=$1

for tool in dpkg-deb dpkg-shlibdeps file help2man; do
  command -v "$tool" >/dev/null || {
    echo "skipped: $tool is not installed (./dev setup, ./dev test install)"
    exit 77
  }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
broken=0
complain() {
  printf 'packages: %s\n' "$*" >&2
  broken=1
}

"$source/dev" package "$scratch"
version=$(sed -n 's/^project(weft VERSION \([^ ]*\).*/\1/p' "$source/CMakeLists.txt")
machine=$(dpkg --print-architecture) triplet=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
packages=(libweft4 libweft-dev weft-tools weft-topo libweft-operators4 libweft-operators-dev python3-weft)

for package in "${packages[@]}"; do
  deb=$scratch/${package}_${version}_$machine.deb tree=$scratch/$package
  [[ -f $deb ]] || complain "there is no ${deb##*/}"
  dpkg-deb -R "$deb" "$tree"
  (cd "$tree" && md5sum -c --quiet DEBIAN/md5sums) || complain "$package: files differ from its md5sums"
  [[ -f $tree/usr/share/doc/$package/copyright ]] || complain "$package has no copyright file"
  [[ $(zcat "$tree/usr/share/doc/$package/changelog.gz" | head -n 1) == "weft ($version) "* ]] ||
    complain "$package: the changelog does not begin with $version"
  [[ $package == *-dev ]] || ! dpkg-deb -f "$deb" Depends Recommends | grep -E -- '[^ ]*-dev\b' ||
    complain "$package needs the -dev packages above"
  (cd "$tree" && find . -path ./DEBIAN -prune -o ! -type d -print) >"$scratch/$package.files"
  # Neither text nor run paths lead back to the tree that it was built in.
  ! grep -r -I -l -F "$source" "$tree" || complain "$package: the files above name $source"
done
(("$(find "$scratch" -name '*.deb' | wc -l)" == ${#packages[@]})) || complain "there are other packages too"

# All that is installed, against all that is packed.
DESTDIR=$scratch/all cmake --install "$source/build/packages" >/dev/null
(cd "$scratch/all" && find . ! -type d) | sort >"$scratch/installed"
sort "$scratch"/*.files >"$scratch/packed"
while IFS= read -r file; do complain "$file is in two packages"; done < <(uniq -d "$scratch/packed")
while IFS= read -r file; do complain "$file is in no package"; done \
  < <(comm -23 "$scratch/installed" <(uniq "$scratch/packed"))
while IFS= read -r file; do complain "$file is packed, but not installed"; done \
  < <(comm -13 "$scratch/installed" <(uniq "$scratch/packed"))

has() { # has PACKAGE FIELD PATTERN
  dpkg-deb -f "$scratch/$1_${version}_$machine.deb" "$2" | grep -E "$3" ||
    complain "$1: $2 is not $3, but: $(dpkg-deb -f "$scratch/$1_${version}_$machine.deb" "$2")"
}
for library in libc6 libexpat1 libfmt9 libhwloc15 libhwy1 libsodium23 libspdlog1 libstdc++6 libxxhash0; do
  has libweft4 Depends "(^|, )${library//+/\\+}"
done
has libweft4 Recommends '^libpmix2, libibverbs1, librdmacm1, ibverbs-providers$'
has libweft-dev Depends "^libweft4 \(= $version\)\$"
for library in "libdnnl2 \(>= 2.6\)" libfmt9 libgomp1 "libweft4 \(= $version\)"; do
  has libweft-operators4 Depends "(^|, )$library"
done
! dpkg-deb -f "$scratch/libweft4_${version}_$machine.deb" Depends | grep -E 'dnnl|gomp' ||
  complain "libweft4 needs the packages above"
has libweft-operators-dev Depends "^libweft-operators4 \(= $version\), libweft-dev \(= $version\)\$"
has weft-tools Depends "(^|, )libweft4 \(= $version\)"
! dpkg-deb -f "$scratch/weft-topo_${version}_$machine.deb" Depends | grep -E "weft|ibverbs|cuda|pmix" ||
  complain "weft-topo needs the packages above"
has weft-tools Recommends '^openmpi-bin$'
for library in "libweft4 \(= $version\)" python3-cffi-backend python3-numpy; do
  has python3-weft Depends "(^|, )$library"
done

[[ -x $scratch/python3-weft/DEBIAN/prerm ]] || complain "python3-weft would leave what Python has compiled"

libraries=usr/lib/$triplet
[[ -f $scratch/libweft4/$libraries/libweft.so.4 ]] || complain "libweft4: no $libraries/libweft.so.4"
[[ $(readlink "$scratch/libweft-dev/$libraries/libweft.so") == libweft.so.4 ]] ||
  complain "libweft-dev: $libraries/libweft.so does not lead to libweft.so.4"
[[ $(cat "$scratch/libweft4/DEBIAN/triggers") == 'activate-noawait ldconfig' ]] ||
  complain "libweft4 does not tell the loader"
[[ $(cat "$scratch/libweft4/DEBIAN/shlibs") == "libweft 4 libweft4 (>= $version)" ]] ||
  complain "libweft4: shlibs are $(cat "$scratch/libweft4/DEBIAN/shlibs")"
operators=libweft-operators4/$libraries/libweft-operators.so.4
[[ $(readlink "$scratch/libweft-operators-dev/$libraries/libweft-operators.so") == libweft-operators.so.4 ]] ||
  complain "libweft-operators-dev: $libraries/libweft-operators.so does not lead to libweft-operators.so.4"
[[ $(cat "$scratch/libweft-operators4/DEBIAN/triggers") == 'activate-noawait ldconfig' ]] ||
  complain "libweft-operators4 does not tell the loader"
[[ $(cat "$scratch/libweft-operators4/DEBIAN/shlibs") == "libweft-operators 4 libweft-operators4 (>= $version)" ]] ||
  complain "libweft-operators4: shlibs are $(cat "$scratch/libweft-operators4/DEBIAN/shlibs")"
for binary in libweft4/$libraries/libweft.so.4 $operators weft-tools/usr/bin/weft-info weft-tools/usr/bin/weft-status weft-tools/usr/bin/weft-trace weft-tools/usr/bin/weft-chaos weft-tools/usr/bin/weft-tune weft-topo/usr/bin/weft-topo python3-weft/usr/lib/python3/dist-packages/weft/_native.abi3.so; do
  file -b "$scratch/$binary" | grep ', stripped' || complain "$binary is not stripped"
  ! readelf -d -W "$scratch/$binary" | grep -E 'R(UN)?PATH' || complain "$binary has a run path"
done
while IFS= read -r program; do
  page=${program%/bin/*}/share/man/man1/${program##*/}.1.gz
  [[ -f $page ]] && zcat "$page" | grep '^\.SH OPTIONS' || complain "${program##*/} has no manual page"
done < <(find "$scratch"/weft-t*/usr/bin -type f)

((broken == 0))
