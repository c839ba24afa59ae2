#!/usr/bin/env bash
# The package as its users see it, from a build folder (default build/ci): installed tree, moved
# elsewhere; find_package, add_subdirectory and pkg-config; symbols; headers on their own.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/ci}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { echo "consumer: $*"; }
fail() { say "$*" >&2; exit 1; }

# Install to one place and use it from another: nothing may remember the first.
cmake --install "$build" --prefix "$work/first" > "$work/install.log"
mv "$work/first" "$work/prefix"
lib=$(find "$work/prefix" -name 'libmxgemm.so.0')
[[ -n $lib ]] || fail "libmxgemm.so.0 was not installed"
libdir=$(dirname "$lib")
export PKG_CONFIG_PATH=$libdir/pkgconfig

say "find_package"
cmake -S tests/consumer -B "$work/found" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/found" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/found/consumer_cpp"
"$work/found/consumer_c"

say "add_subdirectory, static"
cmake -S tests/consumer -B "$work/sub" -G Ninja -DMXGEMM_SOURCE_DIR="$PWD" -DBUILD_SHARED_LIBS=OFF -DCMAKE_BUILD_TYPE=Release > "$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/sub" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/sub/consumer_cpp"
"$work/sub/consumer_c"

say "pkg-config and a C99 compiler"
read -ra flags <<< "$(pkg-config --cflags --libs mxgemm)"
cc -std=c99 -pedantic -Wall -Wextra -Werror tests/consumer/main.c -o "$work/consumer_pc" "${flags[@]}"
LD_LIBRARY_PATH=$libdir "$work/consumer_pc"
[[ $(pkg-config --modversion mxgemm) == $(sed -n 's/^project(mxgemm VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) ]] ||
  fail "mxgemm.pc has another version than CMakeLists.txt"

say "symbols"
soname=$(readelf -d "$lib" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[[ $soname == libmxgemm.so.0 ]] || fail "SONAME is '$soname', not libmxgemm.so.0"
symbols=$(nm -D --defined-only --demangle "$lib" | cut -d ' ' -f 3-)
others=$(grep -vE '^(mxgemm_[a-z0-9_]+$|mxgemm::|(typeinfo|typeinfo name|vtable) for mxgemm::)' <<< "$symbols" || true)
[[ -z $others ]] || fail "exported symbols that are not ours:"$'\n'"$others"
grep -q '^mxgemm::Plan::create(' <<< "$symbols" || fail "no C++ API is exported"
grep -q '^mxgemm_version$' <<< "$symbols" || fail "no C API is exported"

say "headers on their own"
include=$work/prefix/include
for header in "$include"/mxgemm/*.h; do
  name=mxgemm/$(basename "$header")
  for cxx in g++ clang++; do
    echo "#include \"$name\"" | "$cxx" -std=c++20 -Wall -Wextra -Wconversion -Wshadow -Werror \
      -I "$include" -fsyntax-only -x c++ - || fail "$name does not compile alone with $cxx"
  done
done
for cc in gcc clang; do
  echo '#include "mxgemm/c_api.h"' | "$cc" -std=c99 -pedantic -Wall -Wextra -Werror \
    -I "$include" -fsyntax-only -x c - || fail "c_api.h is not C99 for $cc"
done
say "passed"
