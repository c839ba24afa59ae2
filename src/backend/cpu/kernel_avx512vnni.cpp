// cpu_avx512vnni: up to 4 rows of A x 32 rows of W (layout cpu_panel16), exact block dots in int32.
//
// A 64-byte vector of codes holds 8 elements of K for 16 rows of W, one row a 32-bit lane. W is
// decoded to value + 12 (unsigned), so VPDPBUSD multiplies it by A's signed doubled values; the
// 12 * sum(a) too much is taken off by starting each block at A's `offsets`. Everything is exact
// until the block is scaled: the ordered sum.
//
// A tile walks its panels from end to end, so that W is read as a stream. Two panels side by side
// share each broadcast of A, else load ports are the limit. With them it is the multiplier from 3
// rows on (one VPDPBUSD a cycle); below, decoding W, or memory.
#include <immintrin.h>

#include "backend/cpu/biased_avx512.h"
#include "backend/cpu/block_scale_avx512.h"
#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/output_avx512.h"
#include "backend/cpu/region_tools.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
namespace {

constexpr int kRowsPerTile = 4, kPanelsPerTile = 2;
static_assert(kRowsPerTile * kPanelsPerTile * kTileCols <= kMaxTileSums);

// Groups of K (1088 bytes a panel) that prefetch runs ahead: to the first-level cache, and with the
// far policy to the second-level one as well. docs/performance.md has what each gains.
constexpr std::int64_t kNearGroups = 1, kFarGroups = 8;
constexpr int kNearPolicy = 0, kFarPolicy = 1;                         // Config::cache_policy
constexpr std::int64_t kPrefetchBytes = layout::kPanelGroupBytes / 4;  // with each block

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")

/// Whether the scales that count of all 16 rows of a panel lie in the moderate range.
static inline bool moderate_panel(const std::uint8_t* header) noexcept {
  const __m128i largest = _mm_loadu_si128(reinterpret_cast<const __m128i*>(header));
  const __m128i smallest = _mm_loadu_si128(reinterpret_cast<const __m128i*>(header + 16));
  return (_mm_cmpgt_epu8_mask(largest, _mm_set1_epi8(static_cast<char>(kModerateMax))) |
          _mm_cmplt_epu8_mask(smallest, _mm_set1_epi8(kModerateMin))) == 0;
}

/// (byte - 127) << 23 for 16 scale bytes in the moderate range. Others are those of blocks of
/// zeros, for which any finite scale will do.
static inline __m512i moderate_exponents(const std::uint8_t* scales) noexcept {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales));
  bytes = _mm_max_epu8(bytes, _mm_set1_epi8(kModerateMin));
  bytes = _mm_min_epu8(bytes, _mm_set1_epi8(static_cast<char>(kModerateMax)));
  bytes = _mm_sub_epi8(bytes, _mm_set1_epi8(formats::kE8m0One));
  return _mm512_slli_epi32(_mm512_cvtepi8_epi32(bytes), 23);
}

/// Where a tile's rows of A are at one block; the same for the next block once advanced.
struct RowPointers {
  const std::int8_t* values;
  const std::int32_t* offsets;
  const float* scales;
  const std::uint8_t* scale_bytes;
  std::int64_t row_step;  // blocks

  void advance() noexcept {
    values += formats::kBlock;
    ++offsets, ++scales, ++scale_bytes;
  }
};

/// Adds one block to sum[kPanels][kRows].
template <int kRows, int kPanels, bool kModerate>
static inline void add_block512(const RowPointers& a, const std::uint8_t* codes,
                                const std::uint8_t* scales, std::int64_t panel_bytes,
                                __m512* sum) noexcept {
  __m512i dots[kPanels][kRows];
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < kPanels; ++p) dots[p][r] = broadcast32(a.offsets + r * a.row_step);
  for (int d = 0; d < 4; ++d) {
    Biased512 w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = decode_biased(codes + p * panel_bytes + d * 64);
    for (int r = 0; r < kRows; ++r) {
      const std::int8_t* x = a.values + r * a.row_step * formats::kBlock + d * 8;
      const __m512i even = broadcast32(x), odd = broadcast32(x + 4);
      for (int p = 0; p < kPanels; ++p) {
        dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], w[p].low, even);
        dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], w[p].high, odd);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    const std::uint8_t* w_scales = scales + p * panel_bytes;
    const __m512i w_exponents =
        kModerate ? moderate_exponents(w_scales) : load_scale_bytes(w_scales);
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = r * a.row_step;
      const __m512 d = _mm512_cvtepi32_ps(dots[p][r]);
      // Both factors are powers of two: adding the exponents costs no multiplier.
      const __m512i factor = _mm512_add_epi32(w_exponents, broadcast32(a.scales + at));
      __m512& s = sum[p * kRows + r];
      s = kModerate ? _mm512_fmadd_ps(d, _mm512_castsi512_ps(factor), s)
                    : add_scaled_general(s, d, a.scale_bytes[at], w_exponents);
    }
  }
}

static inline void prefetch_far(const std::uint8_t* begin, std::int64_t bytes) noexcept {
  for (std::int64_t i = 0; i < bytes; i += 64) prefetch_l2(begin + i);
}
static inline void prefetch_near(const std::uint8_t* begin, std::int64_t bytes) noexcept {
  for (std::int64_t i = 0; i < bytes; i += 64) prefetch_l1(begin + i);
}

template <int kRows, int kPanels, bool kModerate, bool kFar>
static void sum_tile512(const Tile& tile, const UnpackedRows& a, const WeightsView& w,
                        TileTree& tree) noexcept {
  constexpr int kSums = kRows * kPanels;
  const std::int64_t panel_bytes = layout::panel_bytes(w.k);
  const std::int64_t num_groups = layout::ceil_div(a.num_blocks, layout::kPanelGroupBlocks);
  const std::int64_t first_block = tile.span_begin * formats::kSpanBlocks;
  const std::uint8_t* group =
      w.codes + layout::panel_group_offset(tile.first_col, first_block, w.k);
  const std::int64_t block = tile.first_row * a.num_blocks + first_block;
  RowPointers rows{a.values + block * formats::kBlock, a.offsets + block, a.scales + block,
                   a.scale_bytes + block, a.num_blocks};
  std::int64_t left = min_of(a.num_blocks, tile.span_end * formats::kSpanBlocks) - first_block;
  // Prefetch goes on into the panels after these.
  const std::int64_t distance = min_of(num_groups, kFarGroups);
  const std::int64_t ahead = distance * layout::kPanelGroupBytes;
  const std::int64_t to_next = (kPanels - 1) * panel_bytes + layout::kPanelHeaderBytes;
  std::int64_t inside = num_groups - first_block / layout::kPanelGroupBlocks - distance;
  const std::uint8_t* next =
      w.codes + layout::panel_offset(tile.first_col, w.k) + kPanels * panel_bytes;
  for (int p = 0; p < kPanels; ++p) prefetch_far(next + p * panel_bytes, layout::kPanelHeaderBytes);
  for (std::int64_t span = tile.span_begin; span < tile.span_end; ++span) {
    __m512 sum[kSums];
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_setzero_ps();
    for (std::int64_t end = max_of(0, left - formats::kSpanBlocks); left > end;) {
      const std::uint8_t* soon = group + ahead + (inside-- > 0 ? 0 : to_next);
      const std::int64_t count = min_of(left, layout::kPanelGroupBlocks);
      const std::uint8_t* codes = group;
      const std::uint8_t* scales = group + layout::kPanelScalesOffset;
      for (std::int64_t b = 0; b < count; ++b) {
        for (int p = 0; p < kPanels; ++p) {
          const std::int64_t at = p * panel_bytes + b * kPrefetchBytes;
          if (kFar) prefetch_far(soon + at, kPrefetchBytes);
          prefetch_near(group + kNearGroups * layout::kPanelGroupBytes + at, kPrefetchBytes);
        }
        add_block512<kRows, kPanels, kModerate>(rows, codes, scales, panel_bytes, sum);
        codes += layout::kPanelBlockBytes;
        scales += layout::kPanelRows;
        rows.advance();
      }
      left -= count;
      group += layout::kPanelGroupBytes;
    }
    SpanRange range{tile.first_span + span, 1};
    while (const float* older = tree.take_sibling(range))
      for (int i = 0; i < kSums; ++i)
        sum[i] = _mm512_add_ps(_mm512_load_ps(older + i * kTileCols), sum[i]);
    float* node = tree.append(range);
    for (int i = 0; i < kSums; ++i) _mm512_store_ps(node + i * kTileCols, sum[i]);
  }
}

template <int kRows, bool kFar>
static void sum_rows512(const Tile& tile, const UnpackedRows& a, const WeightsView& w,
                        TileTree& tree) noexcept {
  bool moderate = true;
  for (int r = 0; r < kRows; ++r) moderate = moderate && a.moderate[tile.first_row + r] != 0;
  for (int p = 0; p < tile.panels; ++p)
    moderate = moderate &&
               moderate_panel(w.codes + layout::panel_offset(tile.first_col + p * kTileCols, w.k));
  if (tile.panels == 1)
    moderate ? sum_tile512<kRows, 1, true, kFar>(tile, a, w, tree)
             : sum_tile512<kRows, 1, false, kFar>(tile, a, w, tree);
  else
    moderate ? sum_tile512<kRows, 2, true, kFar>(tile, a, w, tree)
             : sum_tile512<kRows, 2, false, kFar>(tile, a, w, tree);
}

template <bool kFar>
static void sum_avx512vnni(const Tile& tile, const UnpackedRows& a, const WeightsView& w,
                           TileTree& tree) noexcept {
  switch (tile.rows) {
    case 1:
      return sum_rows512<1, kFar>(tile, a, w, tree);
    case 2:
      return sum_rows512<2, kFar>(tile, a, w, tree);
    case 3:
      return sum_rows512<3, kFar>(tile, a, w, tree);
    default:
      return sum_rows512<4, kFar>(tile, a, w, tree);
  }
}

static void store_tile512(const float* sums, const Tile& tile, const RunArgs& args) noexcept {
  for (int p = 0; p < tile.panels; ++p, sums += tile.rows * kTileCols) {
    const std::int64_t col = tile.first_col + p * kTileCols;
    store_panel_avx512(sums, tile.rows, panel_cols(args, col), args.c, tile.first_row, col,
                       args.epilogue);
  }
}

MXGEMM_ISA_END
namespace {

Status run(const RunArgs& args) noexcept {
  const bool far = args.config.cache_policy == kFarPolicy;
  return run_tiles(args, avx512_row_tools(),
                   {far ? sum_avx512vnni<true> : sum_avx512vnni<false>, store_tile512});
}

// Rounded guesses of one core's rates; they only rank kernels and configs.
double estimate(const Problem& problem, const Config& config) noexcept {
  const bool suits = (config.cache_policy == kFarPolicy) == prefers_far_prefetch();
  return estimate_us(problem, suits ? 50 : 48, suits ? 145 : 140, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {
    {.block_m = kRowsPerTile, .block_n = kPanelsPerTile * kTileCols, .cache_policy = kNearPolicy},
    {.block_m = kRowsPerTile, .block_n = kPanelsPerTile * kTileCols, .cache_policy = kFarPolicy}};

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
