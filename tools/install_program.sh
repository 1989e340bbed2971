#!/usr/bin/env bash
# Some tests run a program of the machine. Where it is missing, install its package, or say how.
set -euo pipefail
program=$1 package=$2
command -v "$program" > /dev/null && exit 0
if ! command -v apt-get > /dev/null; then
    echo "the tests need a program called $program ($package); install it and try again" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo --non-interactive)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update --quiet --quiet
"${as_root[@]}" apt-get install --quiet --quiet --yes --no-install-recommends "$package"
