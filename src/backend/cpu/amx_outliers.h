// Blocks of A that their row's base does not hold, on the vector unit: exact dot products as in
// cpu_avx512vnni, scaled one by one. W is decoded once a block for all rows that have it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/amx_decode.h"
#include "backend/cpu/amx_flush.h"
#include "backend/cpu/biased_avx512.h"
#include "backend/cpu/block_scale_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512bf16,avx512vnni")

/// A block of one panel, with its scales.
struct BiasedBlock {
  Biased512 codes[4];
  __m512i scale_bytes;

  BiasedBlock(const std::uint8_t* groups, std::int64_t block) noexcept {
    for (int d = 0; d < 4; ++d) codes[d] = decode_biased(block_codes(groups, block) + 64 * d);
    scale_bytes = _mm512_cvtepu8_epi32(block_scales(groups, block));
  }
};

/// A block of a row of A: doubled values, and -12 times their sum, which undoes W's bias.
struct alignas(16) OutlierBlock {
  std::int8_t even[16], odd[16];
  std::int32_t offset;

  explicit OutlierBlock(const std::uint8_t* codes) noexcept {
    const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i mask = _mm_set1_epi8(15), bytes = load_bytes16(codes);
    const __m128i e = _mm_shuffle_epi8(table, _mm_and_si128(bytes, mask));
    const __m128i o = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
    _mm_store_si128(reinterpret_cast<__m128i*>(even), e);
    _mm_store_si128(reinterpret_cast<__m128i*>(odd), o);
    const __m128i ones = _mm_set1_epi8(1);
    __m128i sum = _mm_dpbusd_epi32(_mm_dpbusd_epi32(_mm_setzero_si128(), ones, e), ones, o);
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    offset = -12 * _mm_cvtsi128_si32(sum);
  }
};

static inline __m512i outlier_dots(const OutlierBlock& a, const BiasedBlock& w) noexcept {
  __m512i dots = _mm512_set1_epi32(a.offset);
  for (int d = 0; d < 4; ++d) {
    dots = _mm512_dpbusd_epi32(dots, w.codes[d].low, broadcast32(a.even + 4 * d));
    dots = _mm512_dpbusd_epi32(dots, w.codes[d].high, broadcast32(a.odd + 4 * d));
  }
  return dots;
}

/// Sums of all outliers of two row tiles (or one) against a pair of panels, float32; false, and
/// nothing is written, where there are none.
static inline bool add_outliers(const ShiftedRows& a, std::int64_t row_tile, bool two_tiles,
                                const PanelPair& pair, TileQuad& sums) noexcept {
  if (a.num_outliers[row_tile] == 0 && (!two_tiles || a.num_outliers[row_tile + 1] == 0))
    return false;
  for (auto& row : sums.rows)
    for (int p = 0; p < 2; ++p) _mm512_store_si512(row + 16 * p, _mm512_setzero_si512());
  const std::uint16_t* rows0 = a.outlier_rows + row_tile * a.num_blocks;
  const std::uint16_t* rows1 = two_tiles ? rows0 + a.num_blocks : nullptr;
  for (std::int64_t b = 0; b < a.num_blocks; ++b) {
    std::uint32_t rows = rows0[b];
    if (rows1 != nullptr) rows |= std::uint32_t{rows1[b]} << 16;
    if (rows == 0) continue;
    const BiasedBlock w[2] = {{pair.groups[0], b}, {pair.groups[1], b}};
    const __m512i w_any = _mm512_max_epi32(w[0].scale_bytes, w[1].scale_bytes);
    const __m512i w_all = _mm512_min_epi32(w[0].scale_bytes, w[1].scale_bytes);
    const int w_largest = _mm512_reduce_max_epi32(w_any);
    const int w_smallest = _mm512_reduce_min_epi32(w_all);
    for (; rows != 0; rows &= rows - 1) {
      const int r = __builtin_ctz(rows);
      const std::int64_t row = row_tile * kTileRows + r;
      const OutlierBlock block(a.outlier_codes + (row * a.num_blocks + b) * 16);
      const int scale = a.scales[row * a.padded_blocks + b];
      const bool normal = scales_are_normal(scale, scale, w_smallest, w_largest);
      for (int p = 0; p < 2; ++p) {
        const __m512 dots = _mm512_cvtepi32_ps(outlier_dots(block, w[p]));
        std::int32_t* at = sums.rows[r] + 16 * p;
        const __m512 before = _mm512_load_ps(at);
        _mm512_store_ps(
            at, normal ? add_scaled_normal(before, dots, row_exponent(scale), w[p].scale_bytes)
                       : add_scaled_general(before, dots, scale, w[p].scale_bytes));
      }
    }
  }
  return true;
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
