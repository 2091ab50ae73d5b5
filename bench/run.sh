#!/usr/bin/env bash
# Builds everything for release and measures it; options are passed on (see --help).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -p ropeway-cli -p ropeway-icd -p ropeway-bench
exec "${CARGO_TARGET_DIR:-target}/release/ropeway-bench" "$@"
