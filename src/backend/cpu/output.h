// From float32 sums to C: alpha, bias, rounding, one canonical NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "formats/mxfp4.h"
#include "mxgemm/plan.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cpu {

/// y = fma(alpha, S, bias); without a bias -0 is added, so zeros keep their sign.
inline float apply_epilogue(float sum, float alpha, float bias) noexcept {
  const float y = alpha == 1.0f ? sum + bias : std::fma(alpha, sum, bias);
  return y == y ? y : std::bit_cast<float>(formats::kF32NaN);
}

/// Writes `count` sums as elements [col, col + count) of a row of c.
inline void store_row(const float* sums, int count, const Matrix& c, std::int64_t row,
                      std::int64_t col, const Epilogue& epilogue) noexcept {
  auto* out = static_cast<std::uint8_t*>(c.data) + (row * c.row_stride + col) * size_of(c.dtype);
  const float* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.data() + col;
  for (int i = 0; i < count; ++i) {
    const float y = apply_epilogue(sums[i], epilogue.alpha, bias == nullptr ? -0.0f : bias[i]);
    if (c.dtype == DType::f32) {  // memcpy: C may have any alignment
      std::memcpy(out + 4 * i, &y, sizeof y);
    } else {
      const std::uint16_t bits = formats::float_to_bf16(y);
      std::memcpy(out + 2 * i, &bits, sizeof bits);
    }
  }
}

}  // namespace mxgemm::cpu
