// Quantizing with AVX2: the lines of quantize/quantize_block.h, 8 elements at a time. bf16, f16 and
// f32 in, row_major MXFP4 out; bit for bit the portable quantizer.
//
// Blocks that are short or hold a NaN or an infinity go to quantize_block itself.
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx2,fma,f16c")

static inline __m256 load8(const std::uint8_t* p, DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    case DType::f16:
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    case DType::bf16:
      break;
  }
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// See e2m1_code: the float adder rounds to a multiple of the step of q's binade.
static inline __m256i e2m1_codes8(__m256 x, __m256 multiplier) noexcept {
  const __m256i abs_mask = _mm256_set1_epi32(0x7FFFFFFF);
  const __m256i one = _mm256_set1_epi32(0x3F800000);
  const __m256i bits = _mm256_castps_si256(_mm256_mul_ps(x, multiplier));
  const __m256i magnitude =
      _mm256_min_epu32(_mm256_and_si256(bits, abs_mask), _mm256_set1_epi32(0x40C00000));
  const __m256i binade =
      _mm256_and_si256(_mm256_max_epu32(magnitude, one), _mm256_set1_epi32(0x7F800000));
  const __m256i magic = _mm256_add_epi32(binade, _mm256_set1_epi32(22 << 23));
  const __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
  const __m256i steps = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
  const __m256i code =
      _mm256_add_epi32(steps, _mm256_srli_epi32(_mm256_sub_epi32(binade, one), 22));
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 28), _mm256_set1_epi32(8));
  return _mm256_or_si256(code, sign);
}

static inline std::uint32_t max_lane(__m256i v) noexcept {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(m));
}

// 32 finite elements; false (nothing written) when one is not.
static inline bool quantize_full_block(const std::uint8_t* p, DType dtype, std::uint32_t addend,
                                       std::uint8_t* codes, std::uint8_t* scale) noexcept {
  const std::int64_t bytes = 8 * size_of(dtype);
  const __m256 x0 = load8(p, dtype), x1 = load8(p + bytes, dtype);
  const __m256 x2 = load8(p + 2 * bytes, dtype), x3 = load8(p + 3 * bytes, dtype);
  const __m256 abs_mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  const auto magnitude = [&](__m256 x) noexcept {
    return _mm256_castps_si256(_mm256_and_ps(x, abs_mask));
  };
  const std::uint32_t amax =
      max_lane(_mm256_max_epu32(_mm256_max_epu32(magnitude(x0), magnitude(x1)),
                                _mm256_max_epu32(magnitude(x2), magnitude(x3))));
  if (amax >= formats::kF32Inf) return false;
  *scale = scale_byte(amax, addend);
  const __m256 multiplier = _mm256_set1_ps(element_multiplier(*scale));

  // 32-bit lanes -> bytes; the two packs interleave 128-bit halves, the permute undoes it.
  const __m256i c01 = _mm256_packs_epi32(e2m1_codes8(x0, multiplier), e2m1_codes8(x1, multiplier));
  const __m256i c23 = _mm256_packs_epi32(e2m1_codes8(x2, multiplier), e2m1_codes8(x3, multiplier));
  const __m256i bytes32 = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(c01, c23),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i pairs = _mm256_maddubs_epi16(bytes32, _mm256_set1_epi16(0x1001));  // lo + 16 hi
  const __m128i packed =
      _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), packed);
  return true;
}

template <DType kDType>
static inline void quantize_full_blocks(const std::uint8_t* p, std::int64_t num_blocks,
                                        std::uint32_t addend, NonFinite policy, std::uint8_t* codes,
                                        std::uint8_t* scales) noexcept {
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const std::uint8_t* block = p + b * formats::kBlock * size_of(kDType);
    if (!quantize_full_block(block, kDType, addend, codes + b * 16, scales + b))
      quantize_row_baseline(block, kDType, formats::kBlock, addend, policy, codes + b * 16,
                            scales + b);
  }
}

void quantize_row_avx2(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                       NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  const auto* p = static_cast<const std::uint8_t*>(x);
  const std::int64_t full = k / formats::kBlock;
  switch (dtype) {
    case DType::bf16:
      quantize_full_blocks<DType::bf16>(p, full, rule_addend, policy, codes, scales);
      break;
    case DType::f16:
      quantize_full_blocks<DType::f16>(p, full, rule_addend, policy, codes, scales);
      break;
    case DType::f32:
      quantize_full_blocks<DType::f32>(p, full, rule_addend, policy, codes, scales);
      break;
  }
  const std::int64_t rest = k - full * formats::kBlock;
  if (rest != 0)
    quantize_row_baseline(p + full * formats::kBlock * size_of(dtype), dtype, rest, rule_addend,
                          policy, codes + full * 16, scales + full);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
