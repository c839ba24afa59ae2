#!/usr/bin/env python3
"""Checks the GGUF reader and writer against the Python package gguf, tensor by tensor.

Usage: gguf_check.py path/to/mxgemm path/to/gguf_copy     (needs numpy and gguf)

The package writes a file with every metadata type, MXFP4 and float tensors, and one tensor of each
other type. `mxgemm inspect` must list it, gguf_copy must decode it to the package's values, and
what gguf_copy writes must read back in the package with the same metadata and bytes.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType as Type
    from gguf import GGUFValueType as Value
except ImportError as missing:
    print(f"skipped: {missing} (pip install gguf)")
    sys.exit(0)

# ggml's C struct has 36 bytes, the package's table 40; no file holds this type.
NOT_STORED = {Type.Q8_1}
DECODED = {Type.MXFP4, Type.F32, Type.F16, Type.BF16}


def make_tensors(rng):
    """name -> (bytes as uint8 [rows..., row bytes], type)"""
    out = {}
    for name, shape in (("w.weight", (7, 96)), ("experts.weight", (3, 5, 64)), ("row", (2880,))):
        x = rng.standard_normal(shape, np.float32) * np.exp2(rng.integers(-20, 20, shape[:-1] + (1,)))
        out[name] = gguf.quantize(x.astype(np.float32), Type.MXFP4), Type.MXFP4
    random = rng.integers(0, 256, (4, 3, 17), np.uint8)
    random[..., 0] = rng.integers(2, 250, (4, 3))  # the extremes of scales: see main()
    out["random"] = random.reshape(4, 51), Type.MXFP4
    x = rng.standard_normal((3, 33), np.float32)
    for t in (Type.F32, Type.F16, Type.BF16):
        out[t.name.lower()] = gguf.quantize(x, t).view(np.uint8).reshape(3, -1), t
    for t, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if t not in DECODED | NOT_STORED:
            out["other." + t.name] = rng.integers(0, 256, (2, 3 * size), np.uint8), t
    return out


def write(path, tensors):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("crosscheck")
    values = {Value.UINT8: 255, Value.INT8: -1, Value.UINT16: 65535, Value.INT16: -2,
              Value.UINT32: 4294967295, Value.INT32: -3, Value.FLOAT32: 1.5, Value.BOOL: True,
              Value.STRING: "caf\u00e9", Value.UINT64: 2**64 - 1, Value.INT64: -2**63,
              Value.FLOAT64: 0.1}
    for t, value in values.items():
        writer.add_key_value("value." + t.name, value, t)
    writer.add_array("array.strings", ["a", "", "\u00e9" * 40])
    writer.add_array("array.ints", [1, -2, 3])
    for name, (data, t) in tensors.items():
        # The package takes floats in their own dtype, all else as bytes.
        writer.add_tensor(name, data, raw_dtype=t)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def fields(reader):
    """key -> (types, bytes of all parts), without what the reader adds for the header."""
    return {f.name: (f.types, b"".join(p.tobytes() for p in f.parts[1:]))
            for f in reader.fields.values() if not f.name.startswith("GGUF.")}


def require(condition, what):
    if not condition:
        raise SystemExit(f"differs: {what}")


def check_listing(command, path, reader):
    listing = json.loads(subprocess.run([command, "inspect", path, "--json"], check=True,
                                        capture_output=True, text=True).stdout)
    listed = {t["name"]: t for t in listing["files"][0]["tensors"]}
    require(list(listed) == [t.name for t in reader.tensors], "the list of tensors")
    for t in reader.tensors:
        got = listed[t.name]
        want = {"name": t.name, "dtype": t.tensor_type.name,
                "shape": [int(d) for d in reversed(t.shape)], "bytes": int(t.n_bytes)}
        require(got == want, f"{got} instead of {want}")
    metadata = listing["files"][0]["metadata"]
    for key, field in reader.fields.items():
        if key.startswith("GGUF."):
            continue
        want = field.contents()
        if field.types[0] == Value.ARRAY:
            require(metadata[key]["count"] == len(want), key)
        else:
            require(metadata[key] == want, f"{key}: {metadata[key]} instead of {want}")
    layers = {layer["name"]: layer for layer in listing["layers"]}
    for t in reader.tensors:
        require((t.tensor_type == Type.MXFP4) == (t.name in layers), f"{t.name} among the layers")
        if t.name in layers:
            scales = np.asarray(t.data).reshape(-1, 17)[:, 0]
            require((layers[t.name]["scale_min"], layers[t.name]["scale_max"]) ==
                    (scales.min(), scales.max()), f"scales of {t.name}")


def check_values(values, reader):
    at = 0
    for t in reader.tensors:
        if t.tensor_type not in DECODED:
            continue
        want = gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape(-1)
        got = values[at:at + want.size]
        at += want.size
        # The package computes half a scale times twice an element: the sign of 0 may get lost.
        wrong = np.flatnonzero(got != want)
        require(not wrong.size, f"{t.name}: {wrong.size} of {want.size} values")
    require(at == values.size, "the number of values")
    return at


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    command, copy = sys.argv[1:]
    rng = np.random.default_rng(20240607)
    with tempfile.TemporaryDirectory() as folder:
        path, again, values = (Path(folder) / name for name in ("a.gguf", "b.gguf", "values"))
        write(path, make_tensors(rng))
        reader = gguf.GGUFReader(path)
        check_listing(command, path, reader)
        subprocess.run([copy, path, again, values], check=True)
        number = check_values(np.fromfile(values, np.float32), reader)
        copied = gguf.GGUFReader(again)
        require(fields(copied) == fields(reader), "metadata after writing")
        require(list(fields(copied)) == list(fields(reader)), "the order of metadata")
        for a, b in zip(reader.tensors, copied.tensors, strict=True):
            require((a.name, a.tensor_type, list(a.shape), a.data.tobytes()) ==
                    (b.name, b.tensor_type, list(b.shape), b.data.tobytes()), f"{a.name} written")
        unknown = [t for t in gguf.GGML_QUANT_SIZES if t not in NOT_STORED]
    print(f"gguf: {len(reader.tensors)} tensors of {len(unknown)} types, {len(fields(reader))} "
          f"metadata entries and {number} decoded values agree, 0 mismatches")


if __name__ == "__main__":
    main()
