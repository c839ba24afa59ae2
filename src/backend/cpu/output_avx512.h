// From float32 sums to C with AVX-512: the bits of output.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"
#include "mxgemm/plan.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")

/// The bias of 16 columns from `col` on; -0 where there is none, so that zeros keep their sign.
static inline __m512 bias_avx512(const Epilogue& epilogue, std::int64_t col,
                                 __mmask16 mask) noexcept {
  return epilogue.bias.empty() ? _mm512_set1_ps(-0.0f)
                               : _mm512_maskz_loadu_ps(mask, epilogue.bias.data() + col);
}

/// The bits of alpha * sum + bias, with one NaN. fma(1, S, bias) = S + bias and fma(1, S, -0) = S:
/// one form for all cases.
static inline __m512i finish_avx512(__m512 sum, float alpha, __m512 bias) noexcept {
  const __m512 y = _mm512_fmadd_ps(_mm512_set1_ps(alpha), sum, bias);
  return _mm512_mask_set1_epi32(_mm512_castps_si512(y), _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q),
                                static_cast<int>(formats::kF32NaN));
}

/// To nearest even in integers: VCVTNEPS2BF16 would flush denormals. That one NaN stays one.
static inline __m256i to_bf16_avx512(__m512i bits) noexcept {
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

/// Writes sums[num_rows][16] to rows [row, row + num_rows) and columns [col, col + num_cols) of c;
/// num_cols <= 16.
static inline void store_panel_avx512(const float* sums, int num_rows, int num_cols,
                                      const Matrix& c, std::int64_t row, std::int64_t col,
                                      const Epilogue& epilogue) noexcept {
  const auto mask = static_cast<__mmask16>((1u << num_cols) - 1);
  const __m512 bias = bias_avx512(epilogue, col, mask);
  const std::int64_t element = size_of(c.dtype), step = c.row_stride * element;
  auto* out = static_cast<std::uint8_t*>(c.data) + (row * c.row_stride + col) * element;
  for (int r = 0; r < num_rows; ++r, sums += 16, out += step) {
    const __m512i bits = finish_avx512(_mm512_loadu_ps(sums), epilogue.alpha, bias);
    if (c.dtype == DType::f32)
      _mm512_mask_storeu_epi32(out, mask, bits);
    else
      _mm256_mask_storeu_epi16(out, mask, to_bf16_avx512(bits));
  }
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
