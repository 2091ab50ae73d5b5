#!/usr/bin/env bash
# Fuzzes frames and sessions for some seconds (20 if not said otherwise), with the compiler that builds everything else.
#
#   fuzz/brief.sh [SECONDS [SEED]]
#
# With ROPEWAY_LIBFUZZER=1, libFuzzer finds the inputs instead; that takes cargo-fuzz and a nightly compiler:
# `cargo install cargo-fuzz && rustup toolchain install nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
if [[ ${ROPEWAY_LIBFUZZER:-} == 1 ]]; then
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "fuzz/brief.sh: ROPEWAY_LIBFUZZER=1 needs cargo-fuzz and a nightly compiler; see the top of this script" >&2
        exit 1
    fi
    for target in frames session; do
        cargo +nightly fuzz run "$target" -- -max_total_time="$((seconds / 2))" -max_len=4096 -timeout=60
    done
else
    cargo build --quiet -p ropeway-fuzz-targets
    "${CARGO_TARGET_DIR:-target}/debug/fuzz-brief" "$@"
fi
