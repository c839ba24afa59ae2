// Codes of a panel of W as unsigned bytes, which VPDPBUSD wants on one side: value + 12.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {

/// By code: the doubled E2M1 value + 12.
alignas(16) inline constexpr std::uint8_t kBiasedValues[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                               12, 11, 10, 9,  8,  6,  4,  0};
static_assert([] {
  for (unsigned i = 0; i < 16; ++i)
    if (kBiasedValues[i] != formats::e2m1_doubled(i) + 12) return false;
  return true;
}());

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// 64 code bytes of a panel: elements 8d + {0, 2, 4, 6} and 8d + {1, 3, 5, 7}.
struct Biased512 {
  __m512i low, high;
};
static inline Biased512 decode_biased(const std::uint8_t* codes) noexcept {
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kBiasedValues)));
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i bytes = _mm512_loadu_si512(codes);
  return {_mm512_shuffle_epi8(table, _mm512_and_si512(bytes, mask)),
          _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask))};
}

/// Four bytes, or any 32 bits, to all lanes.
static inline __m512i broadcast32(const void* p) noexcept {
  int bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return _mm512_set1_epi32(bits);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
