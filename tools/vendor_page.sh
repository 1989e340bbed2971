#!/usr/bin/env bash
# Fetch the libraries of the web UI and of the docs site by name and version, keep the few files
# that are served, and write their checksums. The only change to a file: vega-interpreter imports
# vega-util from vega-util.js next to it, which exports the names of the vega bundle.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
vendor="$root/src/confide/server/static/vendor"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

unpack() {
    npm pack --silent "$1@$2" > packed
    mkdir -p "$3"
    tar --extract --gzip --file "$(tail -n 1 packed)" --directory "$3" --strip-components 1
}

unpack htmx.org 4.0.0 htmx
unpack @picocss/pico 2.1.1 pico
unpack vega 6.4.0 vega
unpack vega-lite 6.4.3 vega-lite
unpack vega-interpreter 2.3.2 vega-interpreter
unpack iframe-worker 1.0.4 iframe-worker

mkdir -p "$vendor/vega-interpreter"
cp htmx/dist/htmx.min.js pico/css/pico.min.css vega/build/vega.min.js "$vendor/"
cp vega-lite/build/vega-lite.min.js "$vendor/"
for file in vega-interpreter/src/*.js; do
    sed "s|from 'vega-util'|from './vega-util.js'|" "$file" > "$vendor/vega-interpreter/$(basename "$file")"
done
for name in htmx pico vega vega-lite vega-interpreter; do
    cp "$name"/LICENSE* "$vendor/$name.LICENSE.txt"
done
cd "$vendor"
find . -type f ! -name SHA256SUMS ! -name README.md -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

site="$root/docs/vendor"
mkdir -p "$site"
cp "$work/iframe-worker/shim/index.js" "$site/iframe-worker.js"
cp "$work/iframe-worker/LICENSE" "$site/iframe-worker.LICENSE.txt"
cd "$site"
sha256sum iframe-worker.LICENSE.txt iframe-worker.js > SHA256SUMS
