#!/usr/bin/env bash
# Everything that CI checks, one step after the other; goes on after a failed step and says at the end which failed.
set -uo pipefail
cd "$(dirname "$0")/.."

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

step "packages" make --no-print-directory packages
step "format, lints, layers, licences" make --no-print-directory check
step "build" make --no-print-directory build
step "unit tests" make --no-print-directory unit
step "models of threads" make --no-print-directory model
step "end-to-end tests" scripts/e2e.sh
step "fuzzing, briefly" make --no-print-directory fuzz

printf '\nmake test: %d steps passed, %d failed' ${#passed[@]} ${#failed[@]}
[ ${#failed[@]} -eq 0 ] || printf ' (%s)' "${failed[@]}"
printf ', %d s\n' "$SECONDS"
[ ${#failed[@]} -eq 0 ]
