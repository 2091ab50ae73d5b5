#!/usr/bin/env bash
# A rack on one machine: a broker, two servers that lend their devices through it, and three programs that together want
# more than there is. `make rack` installs and builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
ropeway=$target/release/ropeway
python=$target/python/bin/python
out=$target/rack
rm -rf "$out"
mkdir -p "$out"
running=()

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    echo "rack: $*" >&2
    for log in "$out"/*.log; do sed "s|^|  $(basename "$log" .log): |" "$log" >&2; done
    exit 1
}
end() {
    kill "${running[@]}" 2>/dev/null || true
    wait "${running[@]}" 2>/dev/null || true
}
trap end EXIT

# Waits until a file has a line that begins with some text, and prints the rest of the line.
line_of() {
    for _ in $(seq 600); do
        # Who writes it may not have begun.
        if [ -e "$1" ] && sed -n "s|^$2||p" "$1" | grep -m 1 ''; then return; fi
        sleep 0.1
    done
    fail "no '$2' in $1"
}

say "A broker"
"$ropeway" broker --listen tls://127.0.0.1:0 --state "$out/broker" >"$out/broker.out" 2>"$out/broker.log" &
running+=($!)
broker=$(line_of "$out/broker.out" 'listening on tls://')
echo "listens on $broker"
ticket() { "$ropeway" ticket new "$1" --state "$out/broker" --host "$broker" "${@:2}"; }

say "Two servers of two devices each, which lend them through the broker"
for name in left right; do
    POCL_DEVICES="pthread pthread" "$ropeway" serve --listen tls://127.0.0.1:0 --state "$out/$name" --warm 2 \
        --name "$name" --broker "$(ticket "$name" --registers)" >"$out/$name.out" 2>"$out/$name.log" &
    running+=($!)
done
line_of "$out/left.out" ready
line_of "$out/right.out" ready
ROPEWAY_BROKER=$(ticket operator)
export ROPEWAY_BROKER
for _ in $(seq 100); do
    [ "$("$ropeway" devices --broker "$ROPEWAY_BROKER" | grep -c free)" = 4 ] && break
    sleep 0.1
done
"$ropeway" devices --broker "$ROPEWAY_BROKER"

say "Three programs, each of which wants two devices: ropeway run --want '2 cpu' -- tomography.py"
programs=()
for user in alice bob carol; do
    ROPEWAY_BROKER=$(ticket "$user") "$ropeway" run --want '2 cpu' --only -- \
        "$python" examples/tomography.py "$out/$user.png" 96 150000 2 >"$out/$user.said" 2>&1 &
    programs+=($!)
    running+=($!)
done
for _ in $(seq 300); do
    waiting=$("$ropeway" queue | tail -n +2)
    [ -n "$waiting" ] && break
    sleep 0.02
done
[ -n "$waiting" ] || fail "no program had to wait"
echo "two of them compute, and one waits:"
"$ropeway" lease list --all
"$ropeway" queue

for program in "${programs[@]}"; do
    wait "$program" || fail "a program has failed: $(cat "$out"/*.said)"
done
for user in alice bob carol; do
    say "$user"
    cat "$out/$user.said"
done
cmp "$out/alice.png" "$out/bob.png" && cmp "$out/bob.png" "$out/carol.png" || fail "the pictures differ"

say "All three are done, with the same picture, and everything is free again:"
"$ropeway" devices --broker "$ROPEWAY_BROKER"
[ "$("$ropeway" devices --broker "$ROPEWAY_BROKER" | grep -c free)" = 4 ] || fail "not all devices are free"
