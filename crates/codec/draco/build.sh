#!/usr/bin/env bash
# Builds Draco's adaptor: crates/codec/draco/build.sh FILE
set -euo pipefail
adaptor=$(dirname "$0")/adaptor.cpp
# Its own file, which takes the other's place at once: a program may have that loaded.
"${CXX:-c++}" -std=c++17 -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -o "$1.$$" "$adaptor" -ldraco
mv "$1.$$" "$1"
