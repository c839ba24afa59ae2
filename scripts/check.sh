#!/usr/bin/env bash
# Everything CI runs, in steps that also run alone:  scripts/check.sh [STEP...]
# Stops at the first failure. Packages: scripts/install_deps.sh check.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
results=build/check   # ctest logs, counted at the end

all_steps=(lint gcc tidy baseline clang asan tsan aarch64 consumer crosscheck docs fuzz)

build() { # PRESET
  cmake --preset "$1" > "$results/configure-$1.log" || { cat "$results/configure-$1.log"; return 1; }
  cmake --build --preset "$1"
}

run_tests() { # STEP PRESET [ctest arguments]
  local log=$results/ctest-$1.log preset=$2
  shift 2
  if ! ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" > "$log" 2>&1; then
    cat "$log"
    return 1
  fi
  grep -E '^100% tests passed|^Total Test time' "$log"
}

step_lint() { # formatting, shell scripts, rules of this repository
  pre-commit run --all-files
}

step_tidy() { # clang's warnings and clang-tidy, over all sources
  cmake --preset ci-clang -B build/tidy -DMXGEMM_BUILD_CLI=ON -DMXGEMM_BUILD_EXAMPLES=ON > /dev/null
  run-clang-tidy -quiet -p build/tidy -j "$jobs" '/(src|cli|examples)/.*\.cpp$' > "$results/tidy.log" 2>&1 ||
    { grep -E 'warning:|error:' -A 3 "$results/tidy.log" | grep -v 'warnings generated'; return 1; }
}

step_gcc() { # all tests, gcc
  build ci
  run_tests gcc ci
}

step_baseline() { # the same tests as a CPU without vector extensions would run them
  build ci
  MXGEMM_CPU_ISA=baseline run_tests baseline ci
}

step_clang() { # a second compiler
  build ci-clang
  run_tests clang ci-clang
}

step_asan() { # address and undefined-behaviour sanitizers
  build asan
  run_tests asan asan
}

step_tsan() { # thread sanitizer
  build tsan
  run_tests tsan tsan -E "IoMemory|PackMemory" # about memory, and minutes long here
}

step_aarch64() { # another architecture, under emulation
  build aarch64
  run_tests aarch64 aarch64 -E "IoMemory|PackMemory" # likewise
}

step_consumer() { # the installed package as its users see it
  build ci
  scripts/check_consumer.sh build/ci
}

step_crosscheck() { # other implementations of the formats
  build ci
  [[ -d build/venv ]] || /usr/bin/python3 -m venv --system-site-packages build/venv # with Debian's NumPy
  build/venv/bin/pip install --quiet --disable-pip-version-check 'ml_dtypes==0.5.*' 'gguf==0.19.*'
  build/venv/bin/python tests/crosscheck/ml_dtypes_check.py build/ci/src/libmxgemm.so
  build/venv/bin/python tests/crosscheck/gguf_check.py build/ci/cli/mxgemm build/ci/tests/gguf_copy
}

step_docs() { # links, quoted programs, generated pages
  build ci
  python3 scripts/check_docs.py build/ci/cli/mxgemm
  scripts/check_quickstart.sh build/ci
}

step_fuzz() { # one minute in all; `make fuzz` runs longer
  scripts/fuzz.sh 20
}

if [[ ${1:-} == --list ]]; then
  printf '%s\n' "${all_steps[@]}"
  exit 0
fi
steps=("$@")
((${#steps[@]})) || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
  declare -F "step_$step" > /dev/null || { echo "check.sh: no step '$step'; steps are: ${all_steps[*]}" >&2; exit 2; }
done

mkdir -p "$results"
for step in "${steps[@]}"; do rm -f "$results/ctest-$step.log"; done
timings=()
for step in "${steps[@]}"; do
  echo "==== $step"
  start=$SECONDS
  set +e # a command in a condition would run without -e
  (set -e; "step_$step")
  rc=$?
  set -e
  if ((rc)); then
    echo "check.sh: step '$step' failed after $((SECONDS - start)) s; run it again with: scripts/check.sh $step" >&2
    exit 1
  fi
  timings+=("$(printf '%-10s %5d s' "$step" $((SECONDS - start)))")
done

echo "==== all steps passed"
printf '%s\n' "${timings[@]}"
for step in "${steps[@]}"; do cat "$results/ctest-$step.log" 2> /dev/null || true; done |
  awk '/tests passed,/ { failed += $4; passed += $NF - $4 }
       END { if (passed) printf "%d passed, %d failed\n", passed, failed }'
