// amax and scales of 32 blocks of bf16 at a time, in 16-bit arithmetic.
//
// The maxima come from a tree of interleaving steps, each of which merges two vectors into one that
// holds both: 3 instructions a block, and no block is reduced on its own.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {

inline constexpr int kAmaxBlocks = 32;
inline constexpr std::int64_t kAmaxElements = kAmaxBlocks * formats::kBlock;
inline constexpr int kBlockBytes = 2 * formats::kBlock;  // of bf16
inline constexpr int kBf16Inf = 0x7F80;
// Below this scale byte subnormal elements matter, and a bf16's bits are no logarithm there.
inline constexpr int kMinScale = 5;

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")

static inline __m512i magnitudes(const std::uint8_t* block) noexcept {
  return _mm512_and_si512(_mm512_loadu_si512(block), _mm512_set1_epi16(0x7FFF));
}

/// Two vectors of maxima into one that holds both, interleaved as 16, 32, 64 or 128-bit groups.
static inline __m512i merge16(__m512i a, __m512i b) noexcept {
  return _mm512_max_epu16(_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
}
static inline __m512i merge32(__m512i a, __m512i b) noexcept {
  return _mm512_max_epu16(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
static inline __m512i merge64(__m512i a, __m512i b) noexcept {
  return _mm512_max_epu16(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}
static inline __m512i merge128(__m512i a, __m512i b) noexcept {
  return _mm512_max_epu16(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

/// 8 blocks' maxima, one a 16-bit lane, each over a quarter of its block in every 128 bits.
static inline __m512i amax8(const std::uint8_t* p) noexcept {
  const auto pair = [p](int i) noexcept {
    return merge16(magnitudes(p + kBlockBytes * i), magnitudes(p + kBlockBytes * (i + 1)));
  };
  return merge64(merge32(pair(0), pair(2)), merge32(pair(4), pair(6)));
}

/// amax of 32 blocks from amax8 of each 8, one a 16-bit lane: bits of a bf16.
static inline __m512i amax32(__m512i a, __m512i b, __m512i c, __m512i d) noexcept {
  return merge128(merge128(a, b), merge128(c, d));
}

/// The same of up to `count` elements, as if zeros followed.
static inline __m512i amax_of(const std::uint8_t* x, std::int64_t count) noexcept {
  constexpr std::int64_t kEight = 8 * formats::kBlock;
  __m512i eights[4];
  for (int i = 0; i < 4; ++i) {
    const std::int64_t left = count - i * kEight;
    if (left >= kEight) {
      eights[i] = amax8(x + 2 * i * kEight);
    } else if (left > 0) {
      alignas(64) std::uint8_t copy[2 * kEight] = {};
      std::memcpy(copy, x + 2 * i * kEight, static_cast<std::size_t>(2 * left));
      eights[i] = amax8(copy);
    } else {
      eights[i] = _mm512_setzero_si512();
    }
  }
  return amax32(eights[0], eights[1], eights[2], eights[3]);
}

/// Their scale bytes under a rule (scale_rule_addend), if they are finite.
static inline __m512i scales_of_amax(__m512i amax, std::uint32_t addend) noexcept {
  const __m512i rounded =
      _mm512_add_epi16(amax, _mm512_set1_epi16(static_cast<short>(addend >> 16)));
  return _mm512_subs_epu16(_mm512_srli_epi16(rounded, 7), _mm512_set1_epi16(2));
}

/// Blocks that 16-bit arithmetic cannot quantize: not finite, or too small (but for zeros).
static inline __mmask32 slow_blocks(__m512i amax, __m512i scales) noexcept {
  const __mmask32 not_finite = _mm512_cmpge_epu16_mask(amax, _mm512_set1_epi16(kBf16Inf));
  const __mmask32 not_zero = _mm512_test_epi16_mask(amax, amax);
  return not_finite | _mm512_mask_cmplt_epu16_mask(not_zero, scales, _mm512_set1_epi16(kMinScale));
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
