#!/usr/bin/env bash
# Makes the driver's image from the release build: packaging/kubernetes/image.sh [NAME:TAG]; with podman, or with docker
# (BUILDER=docker).
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:-localhost/ropeway:0.1.0}
builder=${BUILDER:-podman}
make build
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "${CARGO_TARGET_DIR:-target}"/release/{ropeway,libropeway.so} packaging/kubernetes/Containerfile "$context"
"$builder" build --tag "$name" --file "$context/Containerfile" "$context"
