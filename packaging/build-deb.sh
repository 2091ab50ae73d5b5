#!/usr/bin/env bash
# Builds the Debian package and says where it is: packaging/build-deb.sh [FOLDER] (default: target/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/debian}")

cargo build --release --locked -p ropeway-cli -p ropeway-icd
release=${CARGO_TARGET_DIR:-target}/release

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
library=/usr/lib/$triplet/ropeway/libropeway.so
# Where the program looks for it; whoever wants it installs Draco's own library.
draco=/usr/lib/ropeway/libropeway-draco.so

# Whoever builds a package answers for it, as Debian's tools have it.
maintainer="${DEBFULLNAME:-The Ropeway developers}${DEBEMAIL:+ <$DEBEMAIL>}"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

install -D -m 755 "$release/ropeway" "$root/usr/bin/ropeway"
install -D -m 644 "$release/libropeway.so" "$root$library"
mkdir -p "$root/usr/lib/ropeway"
crates/codec/draco/build.sh "$root$draco" || { echo "packaging/build-deb.sh: Draco's adaptor takes g++ and libdraco-dev" >&2; exit 1; }
chmod 644 "$root$draco"
strip --strip-unneeded "$root/usr/bin/ropeway" "$root$library" "$root$draco"

install -D -m 644 -t "$root/usr/include/CL" include/CL/*.h

install -d "$root/etc/OpenCL/vendors"
sed "s|@LIBRARY@|$library|" packaging/ropeway.icd.in > "$root/etc/OpenCL/vendors/ropeway.icd"
install -D -m 644 -t "$root/usr/lib/systemd/system" packaging/ropeway.service packaging/ropeway.socket

install -D -m 755 -t "$root/usr/lib/ropeway/slurm" packaging/slurm/*

"$release/ropeway" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
completions() { install -D -m 644 /dev/stdin "$root/usr/share/$2" < <("$release/ropeway" completions "$1"); }
completions bash bash-completion/completions/ropeway
completions zsh zsh/vendor-completions/_ropeway
completions fish fish/vendor_completions.d/ropeway.fish

doc=$root/usr/share/doc/ropeway
install -D -m 644 -t "$doc" LICENSE-MIT LICENSE-APACHE
install -D -m 644 -t "$doc/examples" packaging/ropeway.toml
install -D -m 644 -t "$doc/extensions" docs/extensions/*.md
gzip -9nc CHANGELOG.md | install -m 644 /dev/stdin "$doc/changelog.gz"
install -m 644 packaging/copyright "$doc/copyright"

# Debian's packages of libraries have their numbers in their names.
libdraco=$(objdump -p "$root$draco" | sed -n 's/^ *NEEDED *libdraco\.so\.\([0-9]*\)$/libdraco\1/p')

# The oldest C library that has all that these files import.
glibc=$(objdump -T "$root/usr/bin/ropeway" "$root$library" "$root$draco" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1)
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<CONTROL
Package: ropeway
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: utils
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= $glibc), libgcc-s1
Recommends: ocl-icd-libopencl1 | libopencl1
Suggests: clinfo, ffmpeg, $libdraco, openssh-client, pocl-opencl-icd
Description: OpenCL devices of other machines, as if they were in this one
 Ropeway lets unmodified OpenCL programs use the devices of other machines. The
 library is found through the ordinary OpenCL loader; "ropeway serve" offers a
 machine's devices, "ropeway doctor" says what is missing.
CONTROL
echo /etc/OpenCL/vendors/ropeway.icd > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # A server that runs goes on with the new release; its sessions end.
    systemctl try-restart ropeway.service || true
fi
POSTINST
cat > "$root/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now ropeway.socket ropeway.service || true
fi
PRERM
cat > "$root/DEBIAN/postrm" <<'POSTRM'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
POSTRM
chmod 755 "$root"/DEBIAN/p*

mkdir -p "$out"
package=$out/ropeway_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
echo "$package"
