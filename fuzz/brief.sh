#!/usr/bin/env bash
# Fuzzes all targets for some seconds (20 if not said otherwise), with the compiler that builds everything else.
#
#   fuzz/brief.sh [SECONDS [SEED]]
#   fuzz/brief.sh only TARGET SECONDS [SEED]    one, optimized, on all processors
#   fuzz/brief.sh again TARGET FILE...          inputs that were kept, one after the other
#
# With ROPEWAY_LIBFUZZER=1, libFuzzer finds the inputs instead; that takes cargo-fuzz and a nightly compiler:
# `cargo install cargo-fuzz && rustup toolchain install nightly`.
set -euo pipefail
cd "$(dirname "$0")/.."
# With ROPEWAY_ASAN=1, `only` looks for wrong uses of memory, too; that takes a nightly compiler.
build=(cargo build --quiet --profile fuzz -p ropeway-fuzz-targets)
target=${CARGO_TARGET_DIR:-target}
program=$target/fuzz/fuzz-brief
if [[ ${ROPEWAY_ASAN:-} == 1 && ${1:-} == only ]]; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    build=(env RUSTFLAGS=-Zsanitizer=address cargo +nightly "${build[@]:1}" --target "$host" --target-dir "$target/asan")
    program=$target/asan/$host/fuzz/fuzz-brief
    # A worker ends without giving back all that it holds.
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:disable_coredump=1
fi
# The device of the sessions that are many: a stub, which takes no time.
mkdir -p "$target/fuzz-stub"
ROPEWAY_FUZZ_STUB=$(realpath "$target/fuzz-stub")
export ROPEWAY_FUZZ_STUB
"${CC:-cc}" -std=gnu11 -O1 -g -fPIC -fvisibility=hidden -shared -Wl,-z,now -I include -o "$ROPEWAY_FUZZ_STUB/libstub-opencl.so" \
    bench/stub/*.c -lpthread
echo "$ROPEWAY_FUZZ_STUB/libstub-opencl.so" >"$ROPEWAY_FUZZ_STUB/stub.icd"
# Beside the programs, where point clouds' decoder is looked for.
mkdir -p "$(dirname "$program")" "$target/debug"
crates/codec/draco/build.sh "$(dirname "$program")/libropeway-draco.so"
cp "$(dirname "$program")/libropeway-draco.so" "$target/debug/"
if [[ ${ROPEWAY_LIBFUZZER:-} == 1 ]]; then
    seconds=${1:-20}
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "fuzz/brief.sh: ROPEWAY_LIBFUZZER=1 needs cargo-fuzz and a nightly compiler; see the top of this script" >&2
        exit 1
    fi
    for name in frames tls ticket access session stub codecs rings; do
        cargo +nightly fuzz run "$name" -- -max_total_time="$((seconds / 8))" -max_len=4096 -timeout=60
    done
elif [[ ${1:-} == only ]]; then
    "${build[@]}"
    "$program" "$@"
else
    cargo build --quiet -p ropeway-fuzz-targets
    "$target/debug/fuzz-brief" "$@"
fi
