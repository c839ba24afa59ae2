#!/usr/bin/env python3
"""Compares the library's formats with ml_dtypes.  crosscheck_ml_dtypes.py LIBMXGEMM

- all finite bf16 values, in blocks whose scale is fixed by one other element: codes against float4_e2m1fn;
- every code under every scale byte: values against float4_e2m1fn * float8_e8m0fnu;
- amax of every bf16 value: scale bytes of all four rules against their definitions in exact arithmetic.
"""
import ctypes
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np

BF16, F32 = 0, 2
RULES = ("even", "floor", "rceil", "ceil")


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("row_stride", ctypes.c_int64)]


class Mxfp4(ctypes.Structure):
    _fields_ = [("codes", ctypes.c_void_p), ("scales", ctypes.c_void_p)] + [
        (name, ctypes.c_int64) for name in ("rows", "cols", "codes_stride", "scales_stride")]


class QuantizeOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rule", ctypes.c_int),
                ("non_finite", ctypes.c_int), ("threads", ctypes.c_void_p)]


def call(function, *args):
    if function(*[ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in args]) != 0:
        raise RuntimeError(LIB.mxgemm_last_error().decode())


def quantize(bits, rule):
    """bf16 bits [rows, 32] -> codes [rows, 32], scales [rows]."""
    rows = len(bits)
    bits = np.ascontiguousarray(bits, np.uint16)
    packed, scales = np.empty((rows, 16), np.uint8), np.empty(rows, np.uint8)
    call(LIB.mxgemm_quantize, Matrix(bits.ctypes.data, BF16, rows, 32, 32),
         Mxfp4(packed.ctypes.data, scales.ctypes.data, rows, 32, 16, 1),
         QuantizeOptions(ctypes.sizeof(QuantizeOptions), RULES.index(rule), 0, None))
    return np.stack([packed & 15, packed >> 4], 2).reshape(rows, 32), scales


def dequantize(codes, scales):
    rows = len(scales)
    packed = np.ascontiguousarray(codes[:, 0::2] | codes[:, 1::2] << 4)
    out = np.empty((rows, 32), np.float32)
    call(LIB.mxgemm_dequantize, Mxfp4(packed.ctypes.data, scales.ctypes.data, rows, 32, 16, 1),
         Matrix(out.ctypes.data, F32, rows, 32, 32), None)
    return out


def to_float(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rule_by_definition(amax, rule):
    """The exponent that the rule's description gives, in exact arithmetic."""
    if amax == 0:
        return 0
    x = Fraction(float(amax))
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= x:
        exponent += 1
    while Fraction(2) ** exponent > x:
        exponent -= 1
    mantissa = x / Fraction(2) ** exponent
    up = {"even": mantissa >= Fraction(7, 4), "floor": False, "rceil": mantissa > Fraction(3, 2),
          "ceil": mantissa > 1}[rule]
    return max(exponent + up - 2 + 127, 0)


def check(what, bad, total):
    print(f"{what}: {bad} of {total} differ")
    return bad


def main():
    bad = 0
    finite = np.array([b for b in range(65536) if (b & 0x7F80) != 0x7F80], np.uint16)

    # One element of each block carries 6 * 2^e, so that `even` gives the scale 2^e.
    for e in (-100, -3, 0, 5, 100):
        q = to_float(finite).astype(np.float64) / 2.0 ** e
        rows = finite[np.abs(q) <= 6]
        block = np.zeros((len(rows), 32), np.uint16)
        block[:, 0] = rows
        block[:, 31] = np.float32(6 * 2.0 ** e).view(np.uint32) >> 16
        codes, scales = quantize(block, "even")
        scaled = (to_float(rows) / np.float64(2.0) ** e).astype(np.float32)
        want = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
        bad += check(f"codes at scale 2^{e}", np.sum(codes[:, 0] != want), len(rows))
        bad += check(f"scale bytes at 2^{e}", np.sum(scales != 127 + e), len(rows))

    codes = np.tile(np.arange(16, dtype=np.uint8), (256, 2))
    scales = np.arange(256, dtype=np.uint8)
    with np.errstate(over="ignore"):
        want = (codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32) *
                scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)[:, None])
    got = dequantize(codes, scales)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    bad += check("values of every code under every scale", np.sum(~same), same.size)

    positive = finite[finite < 0x8000]
    block = np.zeros((len(positive), 32), np.uint16)
    block[:, 7] = positive
    for rule in RULES:
        scales = quantize(block, rule)[1]
        want = np.array([rule_by_definition(x, rule) for x in to_float(positive)])
        bad += check(f"scale bytes of rule {rule}", np.sum(scales != want), len(positive))
    print(f"ml_dtypes {ml_dtypes.__version__}: {'FAILED' if bad else 'passed'}")
    return 1 if bad else 0


if __name__ == "__main__":
    LIB = ctypes.CDLL(sys.argv[1])
    LIB.mxgemm_last_error.restype = ctypes.c_char_p
    sys.exit(main())
