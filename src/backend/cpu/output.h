// From float32 sums to C: alpha, bias, rounding, one canonical NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "formats/mxfp4.h"
#include "mxgemm/plan.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cpu {

/// Every NaN as the one that mxgemm writes.
inline float canonical(float y) noexcept {
  return y == y ? y : std::bit_cast<float>(formats::kF32NaN);
}

/// y = fma(alpha, S, bias); without a bias -0 is added, so zeros keep their sign.
inline float apply_epilogue(float sum, float alpha, float bias) noexcept {
  return canonical(alpha == 1.0f ? sum + bias : std::fma(alpha, sum, bias));
}

/// Writes kCount sums as elements [col, col + kCount) of a row of c, which may have any alignment.
/// The count is a constant so that compilers vectorize the loops.
template <int kCount>
inline void store_values(const float* sums, const Matrix& c, std::int64_t row, std::int64_t col,
                         const Epilogue& epilogue) noexcept {
  float y[kCount];
  const float* bias = epilogue.bias.empty() ? nullptr : epilogue.bias.data() + col;
  if (epilogue.alpha == 1.0f && bias == nullptr) {
    for (int i = 0; i < kCount; ++i) y[i] = canonical(sums[i]);
  } else {
    for (int i = 0; i < kCount; ++i)
      y[i] = apply_epilogue(sums[i], epilogue.alpha, bias == nullptr ? -0.0f : bias[i]);
  }
  auto* out = static_cast<std::uint8_t*>(c.data) + (row * c.row_stride + col) * size_of(c.dtype);
  if (c.dtype == DType::f32) {
    std::memcpy(out, y, sizeof y);
    return;
  }
  std::uint16_t bits[kCount];
  for (int i = 0; i < kCount; ++i) bits[i] = formats::float_to_bf16(y[i]);
  std::memcpy(out, bits, sizeof bits);
}

/// The same for any count.
inline void store_row(const float* sums, int count, const Matrix& c, std::int64_t row,
                      std::int64_t col, const Epilogue& epilogue) noexcept {
  int i = 0;
  for (; i + 16 <= count; i += 16) store_values<16>(sums + i, c, row, col + i, epilogue);
  for (; i < count; ++i) store_values<1>(sums + i, c, row, col + i, epilogue);
}

}  // namespace mxgemm::cpu
