#!/usr/bin/env python3
"""Rules of this repository that no other tool checks. Arguments: files; default: all of git's."""
import re
import subprocess
import sys
from pathlib import Path

MAX_LINES = 600          # a kernel; other files are far shorter
MAX_BYTES = 100_000      # of anything that is not listed here
LARGE = {"examples/fashion_mnist/fashion_mnist.safetensors": 2_000_000}
CODE = {".h", ".cpp", ".c", ".inc"}
TEXT = CODE | {".py", ".sh", ".md", ".cmake", ".txt", ".json", ".yaml", ".in", ".run", ""}

# (which paths, what must not appear, why)
FORBIDDEN = [
    (r"(^|/)CMakeLists\.txt$|\.cmake$|^CMakePresets\.json$", r"-m(arch|tune|cpu|avx|sse|fma|f16c|amx|bmi)\b|-m(avx|sse|amx)\w",
     "instruction sets are regions in the source, never compiler flags"),
    (r"(^|/)CMakeLists\.txt$|\.cmake$|^CMakePresets\.json$", r"-ffast-math|-Ofast|-funsafe-math|-ffp-contract=(fast|on)",
     "flags that change bits (docs/numerics.md)"),
    (r"^src/.*\.(h|cpp)$", r"\b(abort|exit|printf|puts)\s*\(|\bstd::(cout|cerr|terminate)\b",
     "the library returns a Status; it never prints or ends the process"),
    (r"^src/.*\.(h|cpp)$", r"\bthrow\s+\w|\bomp\.h\b|#pragma omp",
     "errors are values; no OpenMP"),
    (r"^src/(?!backend/registry\.cpp).*\.(h|cpp)$", r"^\s*#\s*(el)?if.*MXGEMM_WITH_",
     "only src/backend/registry.cpp knows which backends are built"),
    (r"^include/", r"#include <(?!algorithm>|array>|bit>|cstddef>|cstdint>|expected>|functional>|"
     r"limits>|memory>|optional>|span>|std(def|int|bool)\.h>|string>|string_view>|utility>|vector>)",
     "public headers include the standard library and mxgemm only"),
]


def problems(name):
    path = Path(name)
    data = path.read_bytes()
    limit = LARGE.get(name, MAX_BYTES)
    if len(data) > limit:
        yield 0, f"{len(data)} bytes, at most {limit}"
    if path.suffix not in TEXT or b"\0" in data:
        return
    text = data.decode("utf-8")
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    if path.suffix in CODE and len(lines) > MAX_LINES:
        yield 0, f"{len(lines)} lines, at most {MAX_LINES}"
    if path.suffix == ".h" and "#pragma once" not in text and "#ifndef" not in text:
        yield 1, "no include guard"
    comment = r"//.*" if path.suffix in CODE else r"#.*"
    rules = [(re.compile(what), why) for where, what, why in FORBIDDEN if re.search(where, name)]
    for number, line in enumerate(lines, start=1):
        if line != line.rstrip():
            yield number, "trailing white space"
        if "\t" in line and path.suffix in CODE | {".py", ".cmake"}:
            yield number, "tab"
        code = re.sub(comment, "", line)
        for what, why in rules:
            if what.search(code):
                yield number, f"{what.search(code).group().strip()!r}: {why}"


def main():
    names = sys.argv[1:] or subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True,
        text=True).stdout.splitlines()
    found = [f"{name}:{line}: {text}" for name in names if Path(name).is_file()
             for line, text in problems(name)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
