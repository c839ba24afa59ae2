// Rounding bf16 to E2M1 by table, 16 bits an element.
//
// An element's bits count quarters of a binade from 1/8 of its block's scale upwards; quarter and
// sign together index a table of 64 values. Elements above a threshold lie in a higher quarter than
// those below it once the count is rounded up; where a tie rounds up as well (.75, 1.75 and 3.5, to
// the even code; their top mantissa bit is set) a bit below the quarters is set first. Not for
// blocks that are slow (block_amax_avx512.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/block_amax_avx512.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {

/// Doubled E2M1 values by quarter | sign << 5.
struct QuarterTable {
  alignas(64) std::int8_t values[64] = {};
};

/// All of them shifted left.
constexpr QuarterTable quarter_table(int shift) noexcept {
  constexpr unsigned kThresholds[7] = {4, 10, 13, 15, 17, 19, 21};  // .25 .75 1.25 1.75 2.5 3.5 5
  QuarterTable t;
  for (unsigned quarter = 0; quarter < 32; ++quarter) {
    unsigned code = 0;
    for (const unsigned threshold : kThresholds) code += quarter > threshold ? 1 : 0;
    const int value = formats::e2m1_doubled(code) << shift;
    t.values[quarter] = static_cast<std::int8_t>(value);
    t.values[quarter + 32] = static_cast<std::int8_t>(-value);
  }
  return t;
}

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")

/// What to subtract from the elements of 16 blocks, twice in 32 bits each; to 64-byte alignment.
/// Elements are doubled, which drops their sign: 64 counts one quarter, 256 one binade. The bits of
/// 2^(scale - 127) / 8 are (scale - 3) << 8; 63 less rounds the count of quarters up. A block of
/// zeros (scale 0) gets a number above all its elements: they saturate to 0 like any tiny one.
static inline void store_origins(__m128i scales, std::uint32_t* origins) noexcept {
  const __m512i origin = _mm512_sub_epi32(_mm512_slli_epi32(_mm512_cvtepu8_epi32(scales), 8),
                                          _mm512_set1_epi32(3 * 256 + 63));
  const __m512i low = _mm512_and_si512(origin, _mm512_set1_epi32(0xFFFF));
  _mm512_store_si512(origins, _mm512_or_si512(low, _mm512_slli_epi32(origin, 16)));
}

/// Bits 6..10: quarters of a block's 32 elements; bit 11: signs.
static inline __m512i count_quarters(const std::uint8_t* x, std::uint32_t origin) noexcept {
  const __m512i bits = _mm512_loadu_si512(x);
  const __m512i down = _mm512_srli_epi16(bits, 4);  // top mantissa bit to 2, sign to 11
  const __m512i doubled = _mm512_add_epi16(bits, bits);
  const __m512i sticky =  // doubled | (down & 4)
      _mm512_ternarylogic_epi32(doubled, down, _mm512_set1_epi16(4), 0xF8);
  const __m512i quarters = _mm512_subs_epu16(sticky, _mm512_set1_epi32(static_cast<int>(origin)));
  return _mm512_ternarylogic_epi32(quarters, down, _mm512_set1_epi16(0x800), 0xF8);
}

/// Indices of two blocks, one a byte, in every 8 elements in the order 0 2 4 6 1 3 5 7. Their upper
/// two bits are anything.
static inline __m512i index_pair(const std::uint8_t* x, const std::uint32_t* origins) noexcept {
  const __m512i a = count_quarters(x, origins[0]);
  const __m512i b = count_quarters(x + kBlockBytes, origins[1]);
  // 8 bits from 6 of each element: of a to the lower half of each 64 bits, of b to the upper one.
  const __m512i fields = _mm512_set1_epi64(0x3626160636261606);
  const __m512i mixed = _mm512_mask_multishift_epi64_epi8(_mm512_multishift_epi64_epi8(fields, a),
                                                          0xF0F0F0F0F0F0F0F0u, fields, b);
  const __m512i order = _mm512_set_epi8(
      63, 61, 55, 53, 62, 60, 54, 52, 47, 45, 39, 37, 46, 44, 38, 36, 31, 29, 23, 21, 30, 28, 22,
      20, 15, 13, 7, 5, 14, 12, 6, 4, 59, 57, 51, 49, 58, 56, 50, 48, 43, 41, 35, 33, 42, 40, 34,
      32, 27, 25, 19, 17, 26, 24, 18, 16, 11, 9, 3, 1, 10, 8, 2, 0);
  return _mm512_permutexvar_epi8(order, mixed);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
