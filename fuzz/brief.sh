#!/usr/bin/env bash
# Fuzzes all targets for some seconds (20 if not said otherwise), with the compiler that builds everything else.
#
#   fuzz/brief.sh [SECONDS [SEED]]
#   fuzz/brief.sh only TARGET SECONDS [SEED]    one, optimized, on all processors
#   fuzz/brief.sh again TARGET FILE             an input that was kept
#
# With ROPEWAY_LIBFUZZER=1, libFuzzer finds the inputs instead; that takes cargo-fuzz and a nightly compiler:
# `cargo install cargo-fuzz && rustup toolchain install nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${ROPEWAY_LIBFUZZER:-} == 1 ]]; then
    seconds=${1:-20}
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "fuzz/brief.sh: ROPEWAY_LIBFUZZER=1 needs cargo-fuzz and a nightly compiler; see the top of this script" >&2
        exit 1
    fi
    for target in frames tls ticket access session; do
        cargo +nightly fuzz run "$target" -- -max_total_time="$((seconds / 5))" -max_len=4096 -timeout=60
    done
elif [[ ${1:-} == only ]]; then
    cargo build --quiet --profile fuzz -p ropeway-fuzz-targets
    "${CARGO_TARGET_DIR:-target}/fuzz/fuzz-brief" "$@"
else
    cargo build --quiet -p ropeway-fuzz-targets
    "${CARGO_TARGET_DIR:-target}/debug/fuzz-brief" "$@"
fi
