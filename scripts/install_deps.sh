#!/usr/bin/env bash
# Installs the Debian packages that `make demo` (argument: demo) or `make check` (argument: check)
# needs. Does nothing, and needs no root, when all of them are there.
set -euo pipefail

demo=(
  g++ cmake ninja-build
  libcli11-dev libfmt-dev nlohmann-json3-dev   # the command line and its file formats
  zlib1g-dev dataset-fashion-mnist             # the demo's images
)
check=(
  "${demo[@]}"
  git file pkg-config python3
  clang libclang-rt-14-dev                     # second compiler; sanitizer and fuzzer runtimes
  clang-format clang-tidy pre-commit shellcheck
  libgtest-dev googletest                      # the second one: sources, for the cross build
  libdnnl-dev libopenblas-dev                  # what `mxgemm bench --against` compares with
  g++-aarch64-linux-gnu qemu-user
  python3-numpy python3-venv python3-pip       # cross-checks against other implementations
)

case "${1:-}" in
  demo) wanted=("${demo[@]}") ;;
  check) wanted=("${check[@]}") ;;
  *) echo "usage: $0 demo|check" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

if ((EUID != 0)) || ! command -v apt-get > /dev/null; then
  echo "install_deps.sh: these Debian packages are missing: ${missing[*]}" >&2
  echo "Install them as root with: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
