// Quantizing bf16 with AVX-512, in 16-bit arithmetic; bit for bit the portable quantizer.
//
// 32 blocks at a time: their amax and scales in one vector (block_amax_avx512.h). An element's code
// is then a table look-up: its bf16 magnitude less the scale's exponent, in quarters of a
// binade, rounded so that ties fall to the even code. Blocks with a NaN, an infinity or a tiny amax
// go to the portable code; other types than bf16 to the AVX2 quantizer.
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/block_amax_avx512.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")

namespace {

constexpr int kBatch = kAmaxBlocks;

inline __m512i load512(const void* p) noexcept {
  return _mm512_loadu_si512(p);
}

/// Magnitude codes by (magnitude bits - those of 1/8, in quarters of a binade, rounded up).
inline __m512i code_table() noexcept {
  alignas(64) static constexpr std::uint16_t kCodes[32] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,
                                                           2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6,
                                                           7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
  return _mm512_load_si512(kCodes);
}

/// 32 codes of a block, one a 16-bit lane. `origin`: bits of 2^(scale - 127) / 8, less 31.
inline __m512i block_codes(const std::uint8_t* block, __m512i origin, __m512i table) noexcept {
  const __m512i x = load512(block);
  const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7FFF));
  // Thresholds lie on quarters of a binade. Those whose second mantissa bit is set (.75, 1.75, 3.5)
  // round a tie up, to the even code; the others round it down.
  const __m512i tie_up = _mm512_and_si512(_mm512_srli_epi16(x, 6), _mm512_set1_epi16(1));
  const __m512i quarters =
      _mm512_srli_epi16(_mm512_add_epi16(_mm512_subs_epu16(magnitude, origin), tie_up), 5);
  const __m512i code = _mm512_permutexvar_epi16(quarters, table);
  // code | (sign >> 12 & 8)
  return _mm512_ternarylogic_epi32(code, _mm512_srli_epi16(x, 12), _mm512_set1_epi16(8), 0xF8);
}

/// 32 consecutive blocks.
inline void quantize_batch(const std::uint8_t* p, std::uint32_t addend, NonFinite policy,
                           std::uint8_t* codes, std::uint8_t* scales) noexcept {
  const __m512i amax = amax32(amax8(p), amax8(p + 8 * kBlockBytes), amax8(p + 16 * kBlockBytes),
                              amax8(p + 24 * kBlockBytes));
  const __m512i scale = scales_of_amax(amax, addend);
  const __mmask32 slow = slow_blocks(amax, scale);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(scales), _mm512_cvtepi16_epi8(scale));
  alignas(64) std::uint16_t origins[kBatch];  // scale * 128 + bits of 1/8 - bits of 1 - 31
  _mm512_store_si512(origins, _mm512_sub_epi16(_mm512_slli_epi16(scale, 7),
                                               _mm512_set1_epi16(0x3F80 - 0x3E00 + 31)));
  const __m512i table = code_table();
  for (int b = 0; b < kBatch; ++b) {
    const __m512i code =
        block_codes(p + 64 * b, _mm512_set1_epi16(static_cast<short>(origins[b])), table);
    const __m512i pairs = _mm512_or_si512(code, _mm512_srli_epi32(code, 12));  // low | high << 4
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16 * b), _mm512_cvtepi32_epi8(pairs));
  }
  for (std::uint32_t rest = slow; rest != 0; rest &= rest - 1) {
    const int b = __builtin_ctz(rest);
    quantize_row_baseline(p + 64 * b, DType::bf16, formats::kBlock, addend, policy, codes + 16 * b,
                          scales + b);
  }
}

}  // namespace

void quantize_row_avx512(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                         NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  const auto* p = static_cast<const std::uint8_t*>(x);
  std::int64_t first = 0;
  if (dtype == DType::bf16) {
    constexpr std::int64_t kElements = kBatch * formats::kBlock;
    for (; first + kElements <= k; first += kElements)
      quantize_batch(p + first * 2, rule_addend, policy, codes + first / 2,
                     scales + first / formats::kBlock);
    // The rest, if it is at least a quarter of a batch, with stand-ins for what is missing.
    const std::int64_t blocks = (k - first) / formats::kBlock;
    if (blocks >= kBatch / 4) {
      alignas(64) std::uint8_t copy[kBatch * 64];
      std::uint8_t more_codes[kBatch * 16], more_scales[kBatch];
      const auto bytes = static_cast<std::size_t>(blocks) * 64;
      std::memcpy(copy, p + first * 2, bytes);
      std::memset(copy + bytes, 0x3F, sizeof copy - bytes);  // ordinary values, no slow blocks
      quantize_batch(copy, rule_addend, policy, more_codes, more_scales);
      std::memcpy(codes + first / 2, more_codes, static_cast<std::size_t>(blocks) * 16);
      std::memcpy(scales + first / formats::kBlock, more_scales, static_cast<std::size_t>(blocks));
      first += blocks * formats::kBlock;
    }
  }
  if (first < k)
    quantize_row_avx2(p + first * size_of(dtype), dtype, k - first, rule_addend, policy,
                      codes + first / 2, scales + first / formats::kBlock);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
