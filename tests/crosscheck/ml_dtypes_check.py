#!/usr/bin/env python3
"""Checks libmxgemm's quantizer and decoder against ml_dtypes, over all finite bf16 values.

Usage: ml_dtypes_check.py path/to/libmxgemm.so     (needs numpy and ml_dtypes)
"""

import ctypes
import sys

import ml_dtypes
import numpy as np

RULES = {"even": 0, "floor": 1, "rceil": 2, "ceil": 3}
BF16, F32 = 0, 2


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("row_stride", ctypes.c_int64)]


class Mxfp4(ctypes.Structure):
    _fields_ = [("codes", ctypes.c_void_p), ("scales", ctypes.c_void_p), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("codes_stride", ctypes.c_int64),
                ("scales_stride", ctypes.c_int64)]


class QuantizeOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rule", ctypes.c_int),
                ("non_finite", ctypes.c_int), ("threads", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.mxgemm_last_error.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.mxgemm_last_error().decode())

    def quantize(self, bits, rule):
        """bits: uint16 bf16 [rows, cols] -> codes [rows, cols] (one a byte), scales [rows, blocks]."""
        rows, cols = bits.shape
        codes = np.zeros((rows, (cols + 1) // 2), np.uint8)
        scales = np.zeros((rows, (cols + 31) // 32), np.uint8)
        options = QuantizeOptions(ctypes.sizeof(QuantizeOptions), RULES[rule], 0, None)
        source = Matrix(bits.ctypes.data, BF16, rows, cols, cols)
        target = Mxfp4(codes.ctypes.data, scales.ctypes.data, rows, cols, codes.shape[1],
                       scales.shape[1])
        self.check(self.lib.mxgemm_quantize(ctypes.byref(source), ctypes.byref(target),
                                            ctypes.byref(options)))
        unpacked = np.stack([codes & 15, codes >> 4], -1).reshape(rows, -1)[:, :cols]
        return unpacked, scales

    def dequantize(self, codes, scales, cols):
        out = np.zeros((codes.shape[0], cols), np.float32)
        source = Mxfp4(codes.ctypes.data, scales.ctypes.data, codes.shape[0], cols, codes.shape[1],
                       scales.shape[1])
        target = Matrix(out.ctypes.data, F32, out.shape[0], cols, cols)
        self.check(self.lib.mxgemm_dequantize(ctypes.byref(source), ctypes.byref(target), None))
        return out


def e8m0(scales):
    return scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)


def check_elements(library):
    """Every finite bf16 under the scale each rule gives it, and as the small one of two elements."""
    bits = np.arange(65536, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(ml_dtypes.bfloat16).astype(np.float32))]
    checked = 0
    for rule in RULES:
        for companion in (0, 1, 2, 3):  # 0: alone; else with a value 2^companion times as large
            x = bits.view(ml_dtypes.bfloat16).astype(np.float64)
            pair = x * 2.0**companion if companion else x
            keep = np.abs(pair) < 3.3e38
            block = np.ascontiguousarray(
                np.stack([x[keep], pair[keep]], 1).astype(ml_dtypes.bfloat16).view(np.uint16))
            codes, scales = library.quantize(block, rule)
            values = block.view(ml_dtypes.bfloat16).astype(np.float64) / e8m0(scales)
            want = values.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
            wrong = np.flatnonzero((codes != want).any(1))
            if wrong.size:
                raise SystemExit(f"{rule}: {wrong.size} differ, first {block[wrong[0]]}: "
                                 f"{codes[wrong[0]]} instead of {want[wrong[0]]}")
            checked += codes.size
    return checked


def check_decoding(library):
    scales = np.arange(255, dtype=np.uint8)[:, None]
    codes = np.tile(np.arange(16, dtype=np.uint8), (255, 1))
    packed = np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4)
    got = library.dequantize(packed, np.ascontiguousarray(scales), 16)
    elements = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    with np.errstate(over="ignore"):
        want = (elements * e8m0(scales)).astype(np.float32)
    if (got.view(np.uint32) != want.view(np.uint32)).any():
        raise SystemExit("decoding differs from ml_dtypes")
    return got.size


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    library = Library(sys.argv[1])
    elements, decoded = check_elements(library), check_decoding(library)
    print(f"ml_dtypes {ml_dtypes.__version__}: {elements} element codes and {decoded} decoded values "
          "agree, 0 mismatches")


if __name__ == "__main__":
    main()
