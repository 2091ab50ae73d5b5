#!/usr/bin/env bash
# Everything that CI checks; goes on after a failed step and says at the end which failed.
set -uo pipefail
cd "$(dirname "$0")/.."

# Tests on a full disk fail in ways that do not say so. What an earlier run built is there already.
needed_gb=8
for place in "${CARGO_TARGET_DIR:-.}" "${TMPDIR:-/tmp}"; do
    free_gb=$(($(df --output=avail -k "$place" | tail -1) / 1024 / 1024))
    if [ ! -d "${CARGO_TARGET_DIR:-target}/debug" ] && [ "$free_gb" -lt "$needed_gb" ]; then
        echo "make test: $place has $free_gb GB free and a first run needs $needed_gb GB: make room, or set CARGO_TARGET_DIR and TMPDIR" >&2
        exit 1
    fi
done

passed=()
failed=()
step() {
    local name=$1 begin=$SECONDS
    shift
    printf '\n=== %s ===\n' "$name"
    if "$@"; then
        passed+=("$name")
    else
        failed+=("$name")
    fi
    printf '=== %s: %d s ===\n' "$name" $((SECONDS - begin))
}

# The unit tests and the models wait for time-outs much of the time, as the end-to-end tests do: they run beside these.
units=$(mktemp)
trap 'kill "${beside:-}" 2>/dev/null; rm -f "$units"' EXIT
run_units() {
    make --no-print-directory unit && echo '--- models of threads' && make --no-print-directory model
}
units_passed() {
    local status=0
    wait "$beside" || status=$?
    beside=
    cat "$units"
    return "$status"
}

step "packages" make --no-print-directory packages
step "format, lints, layers, licences" make --no-print-directory check
step "build" make --no-print-directory build draco
run_units >"$units" 2>&1 &
beside=$!
step "end-to-end tests" scripts/e2e.sh
step "unit tests and models of threads, beside them" units_passed
step "fuzzing, briefly" make --no-print-directory fuzz

printf '\nmake test: %d steps passed, %d failed' ${#passed[@]} ${#failed[@]}
[ ${#failed[@]} -eq 0 ] || printf ' (%s)' "${failed[@]}"
printf ', %d s\n' "$SECONDS"
[ ${#failed[@]} -eq 0 ]
