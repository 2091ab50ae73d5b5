#!/usr/bin/env bash
# Runs under Miri what it can run of the unit tests: nothing that opens a socket, starts a process or calls native OpenCL.
# Takes a nightly compiler: `rustup toolchain install nightly --component miri,rust-src`. MIRI=<toolchain> names another.
set -euo pipefail
cd "$(dirname "$0")/.."
toolchain=${MIRI:-nightly}
if ! cargo "+$toolchain" miri --version >/dev/null 2>&1; then
    echo "scripts/miri.sh: there is no Miri in the toolchain $toolchain; see the top of this script" >&2
    exit 1
fi
# Files of tests and the clock are the machine's. A few cases of each property are all that there is time for.
export MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" PROPTEST_CASES=${PROPTEST_CASES:-2}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
run() {
    cargo "+$toolchain" miri test --locked --lib -p "$@"
}
run ropeway-icd -- handle::
run ropeway-protocol
# It knows no signal masks.
run ropeway-client -- base:: residency:: link::calls collectives:: --skip base::threads
run ropeway-worker -- base::
