// bf16 to UnpackedRows with AVX-512 VNNI and VBMI, in one pass: no packed codes in between.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/activations.h"
#include "backend/cpu/bf16_quarters_avx512.h"
#include "backend/cpu/block_amax_avx512.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
namespace {

constexpr int kHalf = kAmaxBlocks / 2;  // blocks whose sums come together
constexpr QuarterTable kValues = quarter_table(0);

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")

static inline __m512i add_merge32(__m512i a, __m512i b) noexcept {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
static inline __m512i add_merge64(__m512i a, __m512i b) noexcept {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/// Values of 16 blocks; returns 12 times their sums. Not inlined, as there gcc takes the origins
/// apart into registers, which costs shuffles.
[[gnu::noinline]] static __m512i unpack16(const std::uint8_t* x, const std::uint32_t* origins,
                                          std::int8_t* values) noexcept {
  const __m512i table = _mm512_load_si512(kValues.values), twelve = _mm512_set1_epi8(12);
  __m512i fours[2];  // sums of 4 pairs of blocks: even ones in the lower half, odd in the upper one
  for (int i = 0; i < 2; ++i) {
    __m512i pairs[4];
    for (int j = 0; j < 4; ++j) {
      const int pair = 4 * i + j;
      const __m512i v = _mm512_permutexvar_epi8(
          index_pair(x + pair * 2 * kBlockBytes, origins + 2 * pair), table);
      _mm512_storeu_si512(values + pair * 64, v);
      pairs[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), twelve, v);
    }
    fours[i] = add_merge64(add_merge32(pairs[0], pairs[1]), add_merge32(pairs[2], pairs[3]));
  }
  const __m512i sums =  // blocks 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15
      _mm512_add_epi32(_mm512_shuffle_i32x4(fours[0], fours[1], 0x88),
                       _mm512_shuffle_i32x4(fours[0], fours[1], 0xDD));
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), sums);
}

bool unpack_bf16_avx512(const std::uint8_t* x, std::int64_t count, std::uint32_t rule_addend,
                        const UnpackedBlocks& out) noexcept {
  const __m512i amax = amax_of(x, count);
  const __m512i scales = scales_of_amax(amax, rule_addend);
  if (slow_blocks(amax, scales) != 0) return false;
  // Any scale will do for a block of zeros: unpack_blocks in activations.cpp.
  const __m512i stored = _mm512_mask_mov_epi16(_mm512_set1_epi16(formats::kE8m0One),
                                               _mm512_test_epi16_mask(amax, amax), scales);
  const __mmask32 outside =
      _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(stored, _mm512_set1_epi16(kModerateMin)),
                              _mm512_set1_epi16(kModerateMax - kModerateMin));
  if (outside != 0) *out.moderate = false;
  const __m256i own = _mm512_cvtepi16_epi8(scales), bytes = _mm512_cvtepi16_epi8(stored);
  for (int half = 0; half < 2; ++half) {
    const std::int64_t first = half * kHalf, left = count - first * formats::kBlock;
    if (left <= 0) break;
    const std::int64_t blocks =
        left < kHalf * formats::kBlock ? (left + formats::kBlock - 1) / formats::kBlock : kHalf;
    alignas(64) std::uint32_t origins[kHalf];
    store_origins(half == 0 ? _mm256_castsi256_si128(own) : _mm256_extracti128_si256(own, 1),
                  origins);
    __m512i sums;
    if (left >= kHalf * formats::kBlock) {
      sums = unpack16(x + first * kBlockBytes, origins, out.values + first * formats::kBlock);
    } else {
      alignas(64) std::uint8_t copy[kHalf * kBlockBytes] = {};
      alignas(64) std::int8_t values[kHalf * formats::kBlock];
      std::memcpy(copy, x + first * kBlockBytes, static_cast<std::size_t>(2 * left));
      sums = unpack16(copy, origins, values);
      std::memcpy(out.values + first * formats::kBlock, values,
                  static_cast<std::size_t>(blocks * formats::kBlock));
    }
    const auto mask = static_cast<__mmask16>((1u << blocks) - 1);
    const __m128i scale_bytes =
        half == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1);
    _mm512_mask_storeu_epi32(out.offsets + first, mask,
                             _mm512_sub_epi32(_mm512_setzero_si512(), sums));
    // 2^(scale - 127) / 4, a normal number: scales are at least kMinScale.
    _mm512_mask_storeu_epi32(
        out.scales + first, mask,
        _mm512_slli_epi32(_mm512_sub_epi32(_mm512_cvtepu8_epi32(scale_bytes), _mm512_set1_epi32(2)),
                          23));
    _mm_mask_storeu_epi8(out.scale_bytes + first, mask, scale_bytes);
  }
  return true;
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
