// Adding a scaled block dot product to 16 sums, with AVX-512: acc = fma(d * 2^e1, 2^e2, acc).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")

/// 16 scale bytes, one a 32-bit lane.
static inline __m512i load_scale_bytes(const std::uint8_t* scales) noexcept {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
}

/// sum + dots / 4 * 2^(a_byte + w_byte - 254), rounded once, for any scale bytes: 2^e goes in as
/// two factors, of which the first product is exact. A byte 255 gives NaN.
static inline __m512 add_scaled_general(__m512 sum, __m512 dots, int a_byte,
                                        __m512i w_bytes) noexcept {
  const __m512i bias = _mm512_set1_epi32(127), subnormal = _mm512_set1_epi32(0x00400000);
  const auto exp2 = [&](__m512i e) noexcept {  // 2^-127 has no exponent field of its own
    return _mm512_max_epi32(_mm512_slli_epi32(_mm512_add_epi32(e, bias), 23), subnormal);
  };
  const __m512i e = _mm512_add_epi32(w_bytes, _mm512_set1_epi32(a_byte - 254));
  const __m512i e1 = _mm512_srai_epi32(e, 1);
  const __m512 d = _mm512_mul_ps(dots, _mm512_set1_ps(0.25f));
  const __m512 first = _mm512_mul_ps(d, _mm512_castsi512_ps(exp2(e1)));
  const __m512i nan_byte = _mm512_set1_epi32(formats::kE8m0NaN);
  const __mmask16 is_nan =
      a_byte == formats::kE8m0NaN ? __mmask16{0xFFFF} : _mm512_cmpeq_epi32_mask(w_bytes, nan_byte);
  const __m512i second = _mm512_mask_set1_epi32(exp2(_mm512_sub_epi32(e, e1)), is_nan,
                                                static_cast<int>(formats::kF32NaN));
  return _mm512_fmadd_ps(first, _mm512_castsi512_ps(second), sum);
}

// Where 2^(a_byte + w_byte - 254) / 4 has an exponent field a_byte + w_byte - 129 well
// inside 1..254, it is a normal number, and so is its product with any int32: one factor will do.
constexpr int kScaleBias = 129;

constexpr bool scales_are_normal(int a_smallest, int a_largest, int w_smallest,
                                 int w_largest) noexcept {
  return a_largest < formats::kE8m0NaN && w_largest < formats::kE8m0NaN &&
         a_largest + w_largest - kScaleBias <= 216 && a_smallest + w_smallest - kScaleBias >= 8;
}

/// A's part of that exponent field, in place.
constexpr int row_exponent(int a_byte) noexcept {
  return (a_byte - kScaleBias) * (1 << 23);
}
constexpr int row_byte(int exponent) noexcept {
  return (exponent >> 23) + kScaleBias;
}

/// The same sum as add_scaled_general where scales_are_normal.
static inline __m512 add_scaled_normal(__m512 sum, __m512 dots, int a_exponent,
                                       __m512i w_bytes) noexcept {
  const __m512i scale =
      _mm512_add_epi32(_mm512_slli_epi32(w_bytes, 23), _mm512_set1_epi32(a_exponent));
  return _mm512_fmadd_ps(dots, _mm512_castsi512_ps(scale), sum);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
