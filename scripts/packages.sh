#!/usr/bin/env bash
# Installs the Debian packages named on the command line that are missing; does nothing when none is.
set -euo pipefail

missing=()
for package in "$@"; do
    if ! dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "These packages are missing and only root can install them: ${missing[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi
echo "Installing ${missing[*]}"
for package in "${missing[@]}"; do
    # Tests start an sshd and an etcd of their own. The packages would enable the system's, which then listen on all
    # addresses, or on etcd's own port, now and after each start of the machine: that is not for a test to decide. A masked
    # unit stays so when it is installed; a policy-rc.d would only keep it from being started now.
    case $package in
        openssh-server) units=(ssh.service ssh.socket) ;;
        etcd-server) units=(etcd.service) ;;
        *) continue ;;
    esac
    if command -v systemctl >/dev/null; then
        "${as_root[@]}" systemctl mask "${units[@]}"
        echo "The system's ${package%-server} is not started; for that, \`systemctl unmask ${units[*]}\`"
    fi
done
# The package lists of a fresh machine may be empty or old.
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
