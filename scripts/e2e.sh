#!/usr/bin/env bash
# Runs the end-to-end tests of `make build`'s programs, several files of them at the same time, and says at the end which tests were skipped, what
# crashed natively, and which took longest.
#
#   scripts/e2e.sh [name of a file of tests...]
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/e2e/logs
rm -rf "$out" "$target/e2e/notes"
mkdir -p "$out"

built=$(cargo test -p ropeway-tests --locked --no-run "${@/#/--test=}" 2>&1) || { echo "$built" >&2 && exit 1; }
mapfile -t programs < <(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$built" | xargs -r realpath)
[ ${#programs[@]} -gt 0 ] || { echo "scripts/e2e.sh: there are no tests" >&2 && exit 1; }

# One file of tests; what it prints goes out in one piece. This is what shows how long each test takes with a stable compiler.
one() {
    local program=$1 name status=0
    name=$(basename "$program")
    (cd tests && RUSTC_BOOTSTRAP=1 "$program" --test-threads=1 -Zunstable-options --report-time) >"$out/$name" 2>&1 || status=$?
    echo "--- ${name%-*}"
    if [ "$status" -eq 0 ]; then
        grep -E '^test ' "$out/$name" || true
    else
        cat "$out/$name"
        echo "${name%-*}" >>"$out/failed"
    fi
}
export -f one
export out

# Those that take longest begin first, and all others fit beside them.
mapfile -t programs < <(printf '%s\n' "${programs[@]}" | awk '{ print (/\/(pyopencl_[a-z]+|third_party)-/ ? 0 : /\/(pyopencl|package|histories)-/ ? 1 : 2), $0 }' | sort -s -k1,1 | cut -d' ' -f2-)
# One more than there are processors: many tests wait most of the time, for what is stopped, silent or cut off.
printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "$(($(nproc) + 1))" bash -c 'one "$1"' one

printf '\nThe longest tests, in seconds:\n'
# Not `head`: it may end before `sort` has written all, which is a failure under pipefail.
for log in "$out"/*-*; do
    name=$(basename "$log")
    sed -n "s/^test \(.*\) \.\.\. .*<\([0-9.]*\)s>\$/\2 ${name%-*}::\1/p" "$log"
done | sort -rn | sed -n 1,15p

# Each kind of note with the tests that left one.
notes=$target/e2e/notes/notes
count() { if [ -f "$notes" ]; then grep -c "^$1" "$notes" || true; else echo 0; fi; }
[ ! -f "$notes" ] || { printf '\n' && sort "$notes"; }
passed=$(cat "$out"/*-* | grep -cE '^test .* \.\.\. ok( |$)' || true)
failed=$(cat "$out"/*-* | grep -cE '^test .* \.\.\. FAILED' || true)
skipped=$(count skipped)
printf '\nend-to-end tests: %d passed, %d failed, %d skipped; native programs crashed %d times\n' \
    $((passed - skipped)) "$failed" "$skipped" "$(count 'native crash')"
[ ! -f "$out/failed" ] || { echo "failed: $(tr '\n' ' ' <"$out/failed")" && exit 1; }
