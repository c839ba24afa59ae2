// cpu_avx2_w4a16: A stays in floating point; 4 rows of A x 16 rows of W (layout cpu_panel16).
//
// Products of a bf16 or f16 value and an E2M1 value are exact in float32; a block is summed by
// fmas in rising k, then its sum is scaled and added: the element-accumulating bound. Rows with
// magnitudes of 2^100 and more, whose products could overflow before they are scaled, are summed
// in double instead; that depends on the row alone, so `batch` holds.
#include <immintrin.h>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/kernels.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {

static void span_row_in_double(const SpanTile& tile, const FloatRows& a, const WeightsView& w,
                               int r, float* sums) noexcept {
  for (int c = 0; c < kTileCols && tile.first_col + c < w.n; ++c) {
    double total = 0.0;
    for (int i = 0; i < tile.num_blocks; ++i) {
      const std::int64_t b = tile.first_block + i, row = tile.first_row + r;
      const float* x = a.values + (row * a.num_blocks + b) * formats::kBlock;
      const double scale = double{formats::e8m0_to_float(w.scale(tile.first_col + c, b))};
      std::uint8_t codes[16];
      read_block_codes(w, tile.first_col + c, b, codes);
      // Elements past K are left out: an infinity times a pad would be NaN.
      for (int k = 0; k < formats::kBlock && b * formats::kBlock + k < w.k; ++k) {
        const unsigned code = unsigned{codes[k / 2]} >> (4 * (k % 2)) & 15u;
        total += double{x[k]} * (double{formats::e2m1_to_float(code)} * scale);
      }
    }
    sums[r * kTileCols + c] = static_cast<float>(total);
  }
}

MXGEMM_ISA_BEGIN("avx2,fma")

/// Nibble j of each 32-bit lane as an E2M1 value.
template <int kNibble>
static inline __m256 e2m1_values(__m256i codes) noexcept {
  const __m256 table = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256i index = _mm256_srli_epi32(codes, 4 * kNibble);  // the permute uses 3 bits
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 28 - 4 * kNibble),
                                        _mm256_set1_epi32(static_cast<int>(0x80000000u)));
  return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, index), _mm256_castsi256_ps(sign));
}

template <int kRows, int kNibble>
static inline void step(const float* x, std::int64_t stride, __m256i codes0, __m256i codes1,
                        __m256 (&block)[kRows][2]) noexcept {
  const __m256 w0 = e2m1_values<kNibble>(codes0), w1 = e2m1_values<kNibble>(codes1);
  for (int r = 0; r < kRows; ++r) {
    const __m256 value = _mm256_broadcast_ss(x + r * stride + kNibble);
    block[r][0] = _mm256_fmadd_ps(value, w0, block[r][0]);
    block[r][1] = _mm256_fmadd_ps(value, w1, block[r][1]);
  }
}

/// 2^(byte - 127) of 8 scale bytes; 0 -> 2^-127, 255 -> NaN.
static inline __m256 scales8(const std::uint8_t* p) noexcept {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i bits =
      _mm256_max_epi32(_mm256_slli_epi32(bytes, 23), _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_cmpeq_epi32(bytes, _mm256_set1_epi32(formats::kE8m0NaN));
  return _mm256_castsi256_ps(
      _mm256_blendv_epi8(bits, _mm256_set1_epi32(static_cast<int>(formats::kF32NaN)), is_nan));
}

template <int kRows>
static void span_rows(const SpanTile& tile, const FloatRows& a, const std::uint8_t* group,
                      float* sums) noexcept {
  __m256 sum[kRows][2];
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  const std::int64_t stride = a.num_blocks * formats::kBlock;
  for (int i = 0; i < tile.num_blocks; ++i) {
    const std::uint8_t* g = group + i / layout::kPanelGroupBlocks * layout::kPanelGroupBytes;
    const int in_group = i % static_cast<int>(layout::kPanelGroupBlocks);
    const std::uint8_t* codes = g + in_group * layout::kPanelBlockBytes;
    const std::uint8_t* w_scales = g + layout::kPanelScalesOffset + in_group * kTileCols;
    const float* x = a.values + tile.first_row * stride + (tile.first_block + i) * formats::kBlock;

    __m256 block[kRows][2];
    for (int r = 0; r < kRows; ++r) block[r][0] = block[r][1] = _mm256_setzero_ps();
    for (int d = 0; d < 4; ++d) {
      const auto* p = reinterpret_cast<const __m256i*>(codes + d * 64);
      const __m256i c0 = _mm256_loadu_si256(p), c1 = _mm256_loadu_si256(p + 1);
      step<kRows, 0>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 1>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 2>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 3>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 4>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 5>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 6>(x + 8 * d, stride, c0, c1, block);
      step<kRows, 7>(x + 8 * d, stride, c0, c1, block);
    }
    const __m256 scale0 = scales8(w_scales), scale1 = scales8(w_scales + 8);
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = _mm256_fmadd_ps(block[r][0], scale0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(block[r][1], scale1, sum[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(sums + r * kTileCols, sum[r][0]);
    _mm256_storeu_ps(sums + r * kTileCols + 8, sum[r][1]);
  }
}

static void span(const SpanTile& tile, const FloatRows& a, const WeightsView& w,
                 float* sums) noexcept {
  const std::uint8_t* group =
      w.codes + layout::panel_group_offset(tile.first_col, tile.first_block, w.k);
  switch (tile.rows) {
    case 1:
      span_rows<1>(tile, a, group, sums);
      break;
    case 2:
      span_rows<2>(tile, a, group, sums);
      break;
    case 3:
      span_rows<3>(tile, a, group, sums);
      break;
    default:
      span_rows<4>(tile, a, group, sums);
      break;
  }
  for (int r = 0; r < tile.rows; ++r)
    if (a.large[tile.first_row + r] != 0) span_row_in_double(tile, a, w, r, sums);
}

MXGEMM_ISA_END
namespace {

Status run(const RunArgs& args) noexcept {
  return run_tiles(args, {sum_spans<FloatRows, span>});
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 20, 35, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {{.block_m = 4, .block_n = kTileCols}};

}  // namespace

constexpr KernelDesc kAvx2W4A16 = {
    .name = "cpu_avx2_w4a16",
    .device = DeviceKind::cpu,
    .needs = "AVX2, FMA, F16C",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = std::nullopt,
    .none = Reproducible::batch,
    .error_class = ErrorClass::element_accumulating,
    .supports = supports_avx2,
    .estimate_us = estimate,
    .workspace_bytes = float_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
