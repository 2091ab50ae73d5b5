#!/usr/bin/env bash
# Makes a virtual environment in target/python with what the demo needs (PyOpenCL), and with --tests also what the
# tests need: pytest, and the source distribution of PyOpenCL for its own test-suite.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${CARGO_TARGET_DIR:-target}/python
lists=(examples/requirements.txt)
if [ "${1:-}" = --tests ]; then
    lists+=(tests/python/requirements.txt)
fi

# The virtual environment is of Debian's own Python, whatever else is first in PATH.
if [ ! -x "$venv/bin/python" ]; then
    /usr/bin/python3 -m venv "$venv"
fi
for list in "${lists[@]}"; do
    if ! cmp -s "$list" "$venv/$(dirname "$list" | tr / -).installed"; then
        "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$list"
        cp "$list" "$venv/$(dirname "$list" | tr / -).installed"
    fi
done

if [ "${1:-}" = --tests ] && [ ! -d "$venv/sources" ]; then
    wanted=$(grep '^pyopencl==' examples/requirements.txt)
    rm -rf "$venv/sources.new"
    mkdir "$venv/sources.new"
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary pyopencl \
        --dest "$venv/sources.new" "$wanted"
    tar -xzf "$venv"/sources.new/pyopencl-*.tar.gz -C "$venv/sources.new"
    mv "$venv/sources.new" "$venv/sources"
fi
