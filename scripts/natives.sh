#!/usr/bin/env bash
# Puts other native OpenCL implementations into target/e2e/natives, where only tests find them:
#
#   scripts/natives.sh [intel] [rusticl] [oclgrind]
#
# Each has a folder with `vendors`, for OCL_ICD_VENDORS, and `env`, further variables that it needs. Nothing is registered in
# /etc/OpenCL/vendors, so no other program of this machine sees them.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(realpath -m "${CARGO_TARGET_DIR:-target}/e2e/natives")

# Makes the folder of an implementation that lies at $2: the .icd file and what follows as variables. It counts as installed from here on.
registered() {
    local folder=$root/$1 library=$2
    shift 2
    [ -e "$library" ] || { echo "scripts/natives.sh: there is no $library" >&2; exit 1; }
    mkdir -p "$folder/vendors"
    printf '%s\n' "$@" >"$folder/env"
    echo "$library" >"$folder/vendors/native.icd"
}

# Intel's runtime for CPUs, from PyPI. It brings a loader of its own, which must not be the one that programs find.
intel() {
    local venv=$root/intel/venv
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement tests/python/intel.txt
    rm -f "$venv"/lib/libOpenCL*
    registered intel "$venv/lib/libintelocl.so" "LD_LIBRARY_PATH=$venv/lib"
}

# Mesa's rusticl, on its renderer for CPUs. The package is unpacked and not installed, as that would register it; what it depends on is
# installed.
rusticl() {
    local package=mesa-opencl-icd folder=$root/rusticl/package needs
    needs=$(apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$package" |
        sed -n 's/^ *Depends: \([^<]*\)$/\1/p')
    # shellcheck disable=SC2086
    scripts/packages.sh $needs
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$folder" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb .)
    local library
    library=$(find "$folder" -name libRusticlOpenCL.so.1 | head -n 1)
    # A server lets its workers read the folders of LD_LIBRARY_PATH, and those below them.
    registered rusticl "$library" RUSTICL_ENABLE=llvmpipe "LD_LIBRARY_PATH=$(dirname "$library")" \
        "GALLIUM_PIPE_SEARCH_DIR=$(dirname "$library")/gallium-pipe"
}

# A simulator that is slow, and strict with kernels. Its package registers nothing.
oclgrind() {
    scripts/packages.sh oclgrind
    registered oclgrind /usr/lib/oclgrind/liboclgrind-rt-icd.so
}

for name in "$@"; do
    case $name in
    intel | rusticl | oclgrind) ;;
    *) echo "scripts/natives.sh: '$name' is none of intel, rusticl, oclgrind" >&2 && exit 1 ;;
    esac
    [ -e "$root/$name/vendors/native.icd" ] || "$name"
done
