// Floating point to MXFP4 and back. Numerics: docs/numerics.md, sections 1 and 2.
#pragma once

#include <string_view>

#include "mxgemm/device.h"
#include "mxgemm/export.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"
#include "mxgemm/threads.h"

namespace mxgemm {

/// How a block's scale follows from amax, the largest magnitude of its 32 elements.
enum class ScaleRule : int {
  even = 0,   // amax rounded to a power of two at mantissa 1.75: AMD Quark, aiter's Triton path
  floor = 1,  // OCP sample rule: torchao to_mx, ggml
  rceil = 2,  // ceil(log2(amax / 6)), never clips: aiter HIP, ModelOpt
  ceil = 3,   // next power of two: a torchao option
};

/// What a block that holds a NaN or an infinity becomes.
enum class NonFinite : int {
  propagate = 0,  // scale byte 255: every product with the block is NaN
  saturate = 1,   // infinities become the largest code, NaN becomes 0
};

MXGEMM_EXPORT std::string_view to_string(ScaleRule rule) noexcept;
MXGEMM_EXPORT std::string_view to_string(NonFinite policy) noexcept;
/// Reads "even", "floor", "rceil", "ceil".
MXGEMM_EXPORT Result<ScaleRule> parse_scale_rule(std::string_view text);
/// Reads "propagate", "saturate".
MXGEMM_EXPORT Result<NonFinite> parse_non_finite(std::string_view text);

struct QuantizeOptions {
  ScaleRule rule = ScaleRule::even;
  NonFinite non_finite = NonFinite::propagate;
  ThreadPool* threads = nullptr;  // none: the calling thread
};

/// Quantizes in[rows, cols] (bf16, f16 or f32) to out[rows, cols]; elements round to nearest, ties
/// to even. A last block shorter than 32 is treated as if filled with +0; an odd row's last high
/// nibble is written as 0. Bytes between rows are left alone. Never allocates.
/// Errors: invalid_argument (null data, sizes that differ, strides shorter than a row).
MXGEMM_EXPORT Status quantize(const ConstMatrix& in, const Mxfp4Buffer& out,
                              const QuantizeOptions& options = {}) noexcept;

/// The separate path of a linear layer: quantizes activations into the caller's buffers, for
/// Plan::run on an A that is already MXFP4. Same bits as the path fused into Plan::run.
/// Errors: as quantize(); unsupported when this build has no such device.
MXGEMM_EXPORT Status quantize_activations(const Device& device, const ConstMatrix& a,
                                          const Mxfp4Buffer& out,
                                          const QuantizeOptions& options = {},
                                          Stream stream = {}) noexcept;

/// Writes the values: out[r, c] = E2M1(code) * 2^(scale - 127), rounded to out's type (f32 is
/// exact but for overflow to infinity); scale 255 gives NaN. Never allocates.
/// Errors: invalid_argument as quantize().
MXGEMM_EXPORT Status dequantize(const Mxfp4View& in, const Matrix& out,
                                ThreadPool* threads = nullptr) noexcept;

}  // namespace mxgemm
