#!/bin/sh
# Builds the fuzz targets (clang) and runs each for this many seconds: scripts/fuzz.sh [30]
# New inputs are kept in build/fuzz/corpus; a finding ends the script and lies in build/fuzz.
set -eu
seconds=${1:-30}
cd "$(dirname "$0")/.."
build=${MXGEMM_FUZZ_BUILD:-build/fuzz}

cmake --preset fuzz -B "$build" >/dev/null
cmake --build "$build" --target mxgemm_fuzzers
bin=$build/tests/fuzz
"$bin/make_seeds" "$build/seeds"

# Inputs of at most 1 MB; no block above that + 64 MB (62 MiB) may be allocated.
for target in fuzz_safetensors fuzz_gguf fuzz_index fuzz_npy fuzz_tuning; do
  dict=tests/fuzz/json.dict
  [ "$target" = fuzz_gguf ] && dict=tests/fuzz/gguf.dict
  [ "$target" = fuzz_npy ] && dict=tests/fuzz/npy.dict
  [ "$target" = fuzz_tuning ] && dict=tests/fuzz/tuning.dict
  mkdir -p "$build/corpus/$target"
  log=$build/$target.log
  if ! "$bin/$target" -max_total_time="$seconds" -max_len=1000000 -malloc_limit_mb=62 \
    -detect_leaks=1 -timeout=10 -dict="$dict" -artifact_prefix="$build/$target-" -print_funcs=0 \
    "$build/corpus/$target" "$build/seeds/$target" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$target: failed; the input is beside $log" >&2
    exit 1
  fi
  echo "$target: $(grep '^Done' "$log"), no finding"
done
