// One span of 4 rows of A x 16 rows of W (layout cpu_panel16) in 256-bit registers, exact block
// dots.
//
// W is decoded to value + 12 (0..24, unsigned) for instructions that multiply unsigned by signed
// bytes, A's doubled values; the 12 * sum(a) too much is taken off by starting each block at A's
// `offsets`. The only roundings are those of the ordered sum. Scales outside the moderate range
// take a second path with the same bits.
//
// The includer says for which instruction set all this is compiled: it defines MXGEMM_YMM_ISA, and
// gives span_ymm<> the product instruction as a class.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa_region.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN(MXGEMM_YMM_ISA)

static inline __m256i load256(const void* p) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

/// 32 code bytes of a panel: low and high nibbles as doubled E2M1 value + 12.
struct Decoded {
  __m256i low, high;
};
static inline Decoded decode(const std::uint8_t* codes) noexcept {
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i bytes = load256(codes);
  return {_mm256_shuffle_epi8(table, _mm256_and_si256(bytes, mask)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask))};
}

static inline __m256i scale_bytes(const std::uint8_t* scales) noexcept {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales)));
}

/// Whether the scales of all 16 columns lie in the moderate range, over whole groups of 4 blocks
/// (pads hold 127, which does).
static inline bool moderate_scales(const std::uint8_t* group, int num_blocks) noexcept {
  const __m256i low = _mm256_set1_epi8(kModerateMin);
  const __m256i span = _mm256_set1_epi8(kModerateMax - kModerateMin);
  __m256i inside = _mm256_set1_epi8(-1);
  for (int b = 0; b < num_blocks; b += layout::kPanelGroupBlocks, group += layout::kPanelGroupBytes)
    for (int i = 0; i < 64; i += 32) {
      const __m256i x = _mm256_sub_epi8(load256(group + layout::kPanelScalesOffset + i), low);
      inside = _mm256_and_si256(inside, _mm256_cmpeq_epi8(_mm256_min_epu8(x, span), x));
    }
  return _mm256_movemask_epi8(inside) == -1;
}

/// sum + d * 2^e for 8 columns; d = dots / 4. Both scales moderate: one exact factor.
static inline __m256 add_moderate(__m256 sum, __m256 dots, float a_scale,
                                  __m256i w_bytes) noexcept {
  const __m256 w_scale = _mm256_castsi256_ps(_mm256_slli_epi32(w_bytes, 23));
  return _mm256_fmadd_ps(dots, _mm256_mul_ps(w_scale, _mm256_set1_ps(a_scale)), sum);
}

/// The same for any scale bytes: 2^e in two factors, of which the first product is exact.
static inline __m256 add_general(__m256 sum, __m256 dots, int a_byte, __m256i w_bytes) noexcept {
  const __m256i bias = _mm256_set1_epi32(127), subnormal = _mm256_set1_epi32(0x00400000);
  const auto exp2 = [&](__m256i e) noexcept {  // 2^-127 has no exponent field of its own
    return _mm256_max_epi32(_mm256_slli_epi32(_mm256_add_epi32(e, bias), 23), subnormal);
  };
  const __m256i e = _mm256_add_epi32(w_bytes, _mm256_set1_epi32(a_byte - 254));
  const __m256i e1 = _mm256_srai_epi32(e, 1);
  const __m256 d = _mm256_mul_ps(dots, _mm256_set1_ps(0.25f));
  const __m256 first = _mm256_mul_ps(d, _mm256_castsi256_ps(exp2(e1)));
  __m256i second = exp2(_mm256_sub_epi32(e, e1));
  const __m256i nan_byte = _mm256_set1_epi32(formats::kE8m0NaN);
  const __m256i is_nan = _mm256_or_si256(_mm256_cmpeq_epi32(w_bytes, nan_byte),
                                         _mm256_cmpeq_epi32(_mm256_set1_epi32(a_byte), nan_byte));
  second =
      _mm256_blendv_epi8(second, _mm256_set1_epi32(static_cast<int>(formats::kF32NaN)), is_nan);
  return _mm256_fmadd_ps(first, _mm256_castsi256_ps(second), sum);
}

/// kRows x 16 sums. `Dots` multiplies: start(offset), add(dots, w, a) for 4 elements a 32-bit lane,
/// to_int(dots).
template <class Dots, int kRows, bool kModerate>
static void span_rows(const SpanTile& tile, const UnpackedRows& a, const std::uint8_t* group,
                      float* sums) noexcept {
  __m256 sum[kRows][2];
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();

  for (int i = 0; i < tile.num_blocks; ++i) {
    const std::uint8_t* g = group + i / layout::kPanelGroupBlocks * layout::kPanelGroupBytes;
    const int in_group = i % static_cast<int>(layout::kPanelGroupBlocks);
    const std::uint8_t* codes = g + in_group * layout::kPanelBlockBytes;
    const std::uint8_t* w_scales = g + layout::kPanelScalesOffset + in_group * kTileCols;
    const std::int64_t at = tile.first_row * a.num_blocks + tile.first_block + i;

    __m256i dots[kRows][2];
    for (int r = 0; r < kRows; ++r)
      dots[r][0] = dots[r][1] = Dots::start(a.offsets[at + r * a.num_blocks]);
    for (int d = 0; d < 4; ++d) {
      const Decoded w0 = decode(codes + d * 64), w1 = decode(codes + d * 64 + 32);
      for (int r = 0; r < kRows; ++r) {
        const std::int8_t* x = a.values + (at + r * a.num_blocks) * formats::kBlock + d * 8;
        int even4, odd4;
        __builtin_memcpy(&even4, x, sizeof even4);
        __builtin_memcpy(&odd4, x + 4, sizeof odd4);
        const __m256i even = _mm256_set1_epi32(even4), odd = _mm256_set1_epi32(odd4);
        dots[r][0] = Dots::add(dots[r][0], w0.low, even);
        dots[r][1] = Dots::add(dots[r][1], w1.low, even);
        dots[r][0] = Dots::add(dots[r][0], w0.high, odd);
        dots[r][1] = Dots::add(dots[r][1], w1.high, odd);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const __m256i w_bytes = scale_bytes(w_scales + 8 * half);
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t block = at + r * a.num_blocks;
        const __m256 d = _mm256_cvtepi32_ps(Dots::to_int(dots[r][half]));
        sum[r][half] = kModerate ? add_moderate(sum[r][half], d, a.scales[block], w_bytes)
                                 : add_general(sum[r][half], d, a.scale_bytes[block], w_bytes);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(sums + r * kTileCols, sum[r][0]);
    _mm256_storeu_ps(sums + r * kTileCols + 8, sum[r][1]);
  }
}

template <class Dots, int kRows>
static void span_any(const SpanTile& tile, const UnpackedRows& a, const std::uint8_t* group,
                     float* sums) noexcept {
  bool moderate = moderate_scales(group, tile.num_blocks);
  for (int r = 0; r < kRows; ++r) moderate = moderate && a.moderate[tile.first_row + r] != 0;
  if (moderate)
    span_rows<Dots, kRows, true>(tile, a, group, sums);
  else
    span_rows<Dots, kRows, false>(tile, a, group, sums);
}

template <class Dots>
static void span_ymm(const SpanTile& tile, const UnpackedRows& a, const WeightsView& w,
                     float* sums) noexcept {
  const std::uint8_t* group =
      w.codes + layout::panel_group_offset(tile.first_col, tile.first_block, w.k);
  switch (tile.rows) {
    case 1:
      return span_any<Dots, 1>(tile, a, group, sums);
    case 2:
      return span_any<Dots, 2>(tile, a, group, sums);
    case 3:
      return span_any<Dots, 3>(tile, a, group, sums);
    default:
      return span_any<Dots, 4>(tile, a, group, sums);
  }
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
