#!/usr/bin/env bash
# Runs the README's quick start as written, in an empty folder, with the command of a build folder
# (default build/ci).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/ci}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/demo"
ln -s "$PWD/$build/cli" "$work/build/demo/cli"
sed -n '/<!-- quickstart/,/<!-- end of quickstart/p' README.md |
  awk '/^```sh$/ { code = 1; next } /^```$/ { code = 0 } code' > "$work/quickstart.sh"
[[ $(grep -c mxgemm "$work/quickstart.sh") -ge 5 ]] || { echo "no quick start in README.md" >&2; exit 1; }
cd "$work"
bash -euxo pipefail quickstart.sh
