#!/usr/bin/env bash
# Builds everything for release and measures it; options are passed on (see --help).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -p ropeway-cli -p ropeway-icd -p ropeway-bench
# A device that only takes its time, for figures that two cores must not decide; without OpenCL's headers they are left out.
"${CC:-cc}" -std=gnu11 -O2 -fPIC -fvisibility=hidden -shared -Wl,-z,now -o "${CARGO_TARGET_DIR:-target}/release/libstub-opencl.so" \
    bench/stub/*.c -lpthread || echo "no stub device: its figures are left out" >&2
# Collective operations, as a program that runs on every platform does them.
"${CC:-cc}" -std=gnu11 -O2 -o "${CARGO_TARGET_DIR:-target}/release/ropeway-bench-collectives" bench/collectives.c -lOpenCL ||
    echo "no program for collective operations: its figures are left out" >&2
exec "${CARGO_TARGET_DIR:-target}/release/ropeway-bench" "$@"
