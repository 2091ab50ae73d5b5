#!/usr/bin/env bash
# Checks licences, sources and known vulnerabilities of all dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."

# Without optimisation it is built in about a minute.
cargo deny --version >/dev/null 2>&1 || cargo install --debug --locked cargo-deny
cargo deny --locked check --hide-inclusion-graph licenses bans sources

# The list of known vulnerabilities comes over the network. Where it cannot be had, that is said, and is no failure of
# what is checked here; what it lists is one.
if ! log=$(cargo deny --locked check advisories 2>&1); then
    if grep -qE 'failed to (fetch|open|clone|acquire)|unable to (fetch|open|clone)|dns error|network' <<<"$log"; then
        echo "NOT CHECKED: known vulnerabilities, because their list cannot be fetched from here:"
        tail -n 3 <<<"$log"
    else
        echo "$log"
        exit 1
    fi
fi
