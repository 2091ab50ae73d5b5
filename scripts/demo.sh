#!/usr/bin/env bash
# Starts a server on this machine's OpenCL devices and runs unmodified programs through it and natively; the results
# have to be the same. `make demo` installs and builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
ropeway=$target/release/ropeway
python=$target/python/bin/python
out=$target/demo
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    echo "demo: $*" >&2
    [ -s "$out/server.log" ] && sed 's/^/  server: /' "$out/server.log" >&2
    exit 1
}

say "Starting a server for this machine's OpenCL devices"
"$ropeway" serve --listen tcp://127.0.0.1:0 >"$out/server.out" 2>"$out/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 600); do
    grep -qx ready "$out/server.out" && break
    kill -0 "$server" 2>/dev/null || fail "the server did not start"
    sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$out/server.out" | head -n 1)
[ -n "$url" ] || fail "the server says no address"
echo "listening on $url"

remote() { "$ropeway" run --server "$url" --only -- "$@"; }

# Runs a program natively and through Ropeway; what it prints has to be the same.
both() {
    local name=$1
    shift
    "$@" >"$out/$name.native" || fail "$name does not run natively"
    say "ropeway run --server $url --only -- $(basename "$1") ${*:2}"
    remote "$@" | tee "$out/$name.remote"
    cmp "$out/$name.native" "$out/$name.remote" || fail "$name prints something else natively"
}

say "ropeway run --server $url --only -- clinfo -l"
clinfo -l >"$out/clinfo.native"
remote clinfo -l | tee "$out/clinfo.remote"
# The platform has another name; the devices have not.
diff <(grep Device "$out/clinfo.native") <(grep Device "$out/clinfo.remote") || fail "the devices differ"

both vector_add "$python" examples/vector_add.py

"$python" examples/mandelbrot.py "$out/native.png" >/dev/null || fail "mandelbrot.py does not run natively"
say "ropeway run --server $url --only -- python examples/mandelbrot.py $out/mandelbrot.png"
remote "$python" examples/mandelbrot.py "$out/mandelbrot.png"
cmp "$out/native.png" "$out/mandelbrot.png" || fail "the pictures differ"

say "All the same as natively. The picture is $(realpath "$out/mandelbrot.png")"
