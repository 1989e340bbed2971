#!/usr/bin/env bash
# The tests of the Spark engine run Java 17 or later. Where it is missing, install it, or say how.
set -euo pipefail
command -v java > /dev/null && exit 0
if ! command -v apt-get > /dev/null; then
    echo "the tests of Spark need a program called java, 17 or later; install it and try again" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo --non-interactive)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update --quiet --quiet
"${as_root[@]}" apt-get install --quiet --quiet --yes --no-install-recommends openjdk-17-jre-headless
