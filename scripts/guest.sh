#!/usr/bin/env bash
# Unpacks Debian's kernel for virtual machines into target/e2e/guest, without installing it: `kernel`, and the modules that a guest of QEMU's needs, in
# the order in which they are loaded.
set -euo pipefail
cd "$(dirname "$0")/.."

guest=$(realpath -m "${CARGO_TARGET_DIR:-target}")/e2e/guest
[ ! -e "$guest/modules.order" ] || exit 0
rm -rf "$guest"
mkdir -p "$guest/modules"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$(apt-cache depends --important linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$package" ] || { echo "scripts/guest.sh: the package linux-image-cloud-amd64 is not known here" >&2 && exit 1; }
(cd "$work" && apt-get download -q "$package" && dpkg-deb -x ./*.deb unpacked)
cp "$work"/unpacked/boot/vmlinuz-* "$guest/kernel"
for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net; do
    # Those that are part of the kernel are no files.
    find "$work/unpacked/lib/modules" -name "$module.ko" -exec cp {} "$guest/modules/" \;
    [ ! -e "$guest/modules/$module.ko" ] || echo "$module.ko"
done >"$work/modules.order"
mv "$work/modules.order" "$guest/"
