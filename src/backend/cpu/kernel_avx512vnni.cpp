// cpu_avx512vnni: up to 8 rows of A x 16 rows of W (layout cpu_panel16), exact block dots in int32.
//
// A 64-byte vector of codes holds 8 elements of K for all 16 rows of W, one row a 32-bit lane. W is
// decoded to value + 12 (unsigned), so VPDPBUSD multiplies it by A's signed doubled values; the
// 12 * sum(a) too much is taken off by starting each block at A's `offsets`. Everything is exact
// until the block is scaled: the ordered sum. One row of A reads W at the speed of memory.
#include <immintrin.h>

#include "backend/cpu/block_scale_avx512.h"
#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/kernels.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")

/// 64 code bytes of a panel: low and high nibbles as doubled E2M1 value + 12.
struct Decoded512 {
  __m512i low, high;
};
static inline Decoded512 decode(const std::uint8_t* codes) noexcept {
  const __m512i table = _mm512_broadcast_i32x4(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i bytes = _mm512_loadu_si512(codes);
  return {_mm512_shuffle_epi8(table, _mm512_and_si512(bytes, mask)),
          _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask))};
}

/// Whether the scales of all 16 columns lie in the moderate range, over whole groups of 4 blocks
/// (pads hold 127, which does).
static inline bool moderate_scales512(const std::uint8_t* group, int num_blocks) noexcept {
  const __m512i low = _mm512_set1_epi8(kModerateMin);
  const __m512i span = _mm512_set1_epi8(kModerateMax - kModerateMin);
  __mmask64 outside = 0;
  for (int b = 0; b < num_blocks; b += layout::kPanelGroupBlocks, group += layout::kPanelGroupBytes)
    outside |= _mm512_cmpgt_epu8_mask(
        _mm512_sub_epi8(_mm512_loadu_si512(group + layout::kPanelScalesOffset), low), span);
  return outside == 0;
}

template <int kRows, bool kModerate>
static void span_rows512(const SpanTile& tile, const UnpackedRows& a, const std::uint8_t* group,
                         float* sums) noexcept {
  __m512 sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = _mm512_setzero_ps();
  for (int i = 0; i < tile.num_blocks; ++i) {
    const std::uint8_t* g = group + i / layout::kPanelGroupBlocks * layout::kPanelGroupBytes;
    const int in_group = i % static_cast<int>(layout::kPanelGroupBlocks);
    const std::uint8_t* codes = g + in_group * layout::kPanelBlockBytes;
    const std::int64_t at = tile.first_row * a.num_blocks + tile.first_block + i;

    __m512i dots[kRows];
    for (int r = 0; r < kRows; ++r) {
      // The offset is a 16-bit number for kernels that add in 16 bits.
      const auto offset = static_cast<std::int16_t>(a.offsets[at + r * a.num_blocks]);
      dots[r] = _mm512_set1_epi32(offset);
    }
    for (int d = 0; d < 4; ++d) {
      const Decoded512 w = decode(codes + d * 64);
      for (int r = 0; r < kRows; ++r) {
        const std::int8_t* x = a.values + (at + r * a.num_blocks) * formats::kBlock + d * 8;
        int even, odd;
        __builtin_memcpy(&even, x, sizeof even);
        __builtin_memcpy(&odd, x + 4, sizeof odd);
        dots[r] = _mm512_dpbusd_epi32(dots[r], w.low, _mm512_set1_epi32(even));
        dots[r] = _mm512_dpbusd_epi32(dots[r], w.high, _mm512_set1_epi32(odd));
      }
    }
    const __m512i w_bytes = load_scale_bytes(g + layout::kPanelScalesOffset + in_group * kTileCols);
    const __m512 w_scale = normal_scales(w_bytes);
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t block = at + r * a.num_blocks;
      const __m512 d = _mm512_cvtepi32_ps(dots[r]);
      sum[r] = kModerate ? _mm512_fmadd_ps(
                               d, _mm512_mul_ps(w_scale, _mm512_set1_ps(a.scales[block])), sum[r])
                         : add_scaled_general(sum[r], d, a.scale_bytes[block], w_bytes);
    }
  }
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(sums + r * kTileCols, sum[r]);
}

template <int kRows>
static void span_any512(const SpanTile& tile, const UnpackedRows& a, const std::uint8_t* group,
                        float* sums) noexcept {
  bool moderate = moderate_scales512(group, tile.num_blocks);
  for (int r = 0; r < kRows; ++r) moderate = moderate && a.moderate[tile.first_row + r] != 0;
  if (moderate)
    span_rows512<kRows, true>(tile, a, group, sums);
  else
    span_rows512<kRows, false>(tile, a, group, sums);
}

static void span_avx512vnni(const SpanTile& tile, const UnpackedRows& a, const WeightsView& w,
                            float* sums) noexcept {
  const std::uint8_t* group =
      w.codes + layout::panel_group_offset(tile.first_col, tile.first_block, w.k);
  switch (tile.rows) {
    case 1:
      return span_any512<1>(tile, a, group, sums);
    case 2:
      return span_any512<2>(tile, a, group, sums);
    case 3:
      return span_any512<3>(tile, a, group, sums);
    case 4:
      return span_any512<4>(tile, a, group, sums);
    case 5:
      return span_any512<5>(tile, a, group, sums);
    case 6:
      return span_any512<6>(tile, a, group, sums);
    case 7:
      return span_any512<7>(tile, a, group, sums);
    default:
      return span_any512<8>(tile, a, group, sums);
  }
}

MXGEMM_ISA_END
namespace {

Status run(const RunArgs& args) noexcept {
  return run_tiles(args, avx512_row_tools(), span_avx512vnni);
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 50, 160, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {{.block_m = kMaxTileRows, .block_n = kTileCols}};

Status supports(const Problem&, const Device&) noexcept {
  return supports_isa(Isa::avx512vnni, "AVX-512 VNNI");
}

}  // namespace

constexpr KernelDesc kAvx512Vnni = {
    .name = "cpu_avx512vnni",
    .device = DeviceKind::cpu,
    .needs = "AVX-512 F, BW, DQ, VL, VNNI",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::device,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports,
    .estimate_us = estimate,
    .workspace_bytes = mxfp4_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
