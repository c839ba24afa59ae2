// cpu_portable: no intrinsics, any architecture, any weight layout.
//
// Decodes 16 rows of W for one block into int16 [element][row] on the stack, once for 8 rows of A,
// and multiplies in gcc's and clang's generic vectors. A whole block's dot product of doubled
// values fits an int16: at most 32 * 12 * 12 = 4608.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/kernels.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;

// A vector type of gcc and clang, for any architecture: left to themselves, compilers vectorize the
// loop below along K, with a permutation an element.
using Int16x8 = std::int16_t __attribute__((vector_size(16)));

/// Doubled values of one element of K in 16 rows of W.
struct Column {
  Int16x8 low, high;
};

/// One block of 16 rows of W, decoded.
struct DecodedBlock {
  Column values[kBlock];  // in the order of A's
  std::uint8_t scales[kTileCols];
  bool moderate;  // as UnpackedRows::moderate
};

/// Doubled E2M1 values of 8 codes: 0 1 2 3 4 5 6 7 becomes 0 1 2 3 4 6 8 12 by adding what exceeds
/// 4, and twice what exceeds 6; comparisons give -1 where they hold.
Int16x8 doubled_values(Int16x8 codes) noexcept {
  const Int16x8 m = codes & 7;
  const Int16x8 magnitude = m + ((m - 4) & (m > 4)) + ((m - 6) & (m > 6)) * 2;
  const Int16x8 negative = codes > 7;
  return (magnitude ^ negative) - negative;
}

Column doubled_values(const std::int16_t (&codes)[kTileCols]) noexcept {
  Column column;
  std::memcpy(&column.low, codes, sizeof column.low);
  std::memcpy(&column.high, codes + 8, sizeof column.high);
  return {doubled_values(column.low), doubled_values(column.high)};
}

void decode_block(const WeightsView& w, std::int64_t first_row, std::int64_t b,
                  DecodedBlock& out) noexcept {
  std::uint8_t bytes[kBlock / 2][kTileCols];  // [code byte][row]
  out.moderate = true;
  for (int c = 0; c < kTileCols; ++c) {
    std::uint8_t codes[kBlock / 2] = {};
    std::uint8_t scale = formats::kE8m0One;
    if (first_row + c < w.n) {
      read_block_codes(w, first_row + c, b, codes);
      scale = w.scale(first_row + c, b);
    }
    for (int j = 0; j < kBlock / 2; ++j) bytes[j][c] = codes[j];
    out.scales[c] = scale;
    out.moderate = out.moderate && scale >= kModerateMin && scale <= kModerateMax;
  }
  for (int j = 0; j < kBlock / 2; ++j) {  // low nibbles, then high ones, in every 8 elements
    std::int16_t low[kTileCols], high[kTileCols];
    for (int c = 0; c < kTileCols; ++c) {
      low[c] = static_cast<std::int16_t>(bytes[j][c] & 15);
      high[c] = static_cast<std::int16_t>(bytes[j][c] >> 4);
    }
    out.values[j / 4 * 8 + j % 4] = doubled_values(low);
    out.values[j / 4 * 8 + 4 + j % 4] = doubled_values(high);
  }
}

void block_dots(const std::int8_t* a, const DecodedBlock& w,
                std::int16_t (&dots)[kTileCols]) noexcept {
  Int16x8 low{}, high{};
  for (int k = 0; k < kBlock; ++k) {
    const auto x = std::int16_t{a[k]};
    low += w.values[k].low * x;
    high += w.values[k].high * x;
  }
  std::memcpy(dots, &low, sizeof low);
  std::memcpy(dots + 8, &high, sizeof high);
}

/// sums += dots * 2^e, each step rounded once. The product is exact in the moderate range, where a
/// separate multiplication and addition give the bits of the fma.
void add_blocks(const std::int16_t (&dots)[kTileCols], float a_scale, std::uint8_t a_scale_byte,
                bool moderate, const DecodedBlock& w, float* sums) noexcept {
  if (moderate && w.moderate) {
    for (int c = 0; c < kTileCols; ++c)
      sums[c] += static_cast<float>(dots[c]) *
                 (a_scale * std::bit_cast<float>(std::uint32_t{w.scales[c]} << 23));
    return;
  }
  for (int c = 0; c < kTileCols; ++c) {
    if (a_scale_byte == formats::kE8m0NaN || w.scales[c] == formats::kE8m0NaN) {
      sums[c] = std::bit_cast<float>(formats::kF32NaN);
      continue;
    }
    const int e = int{a_scale_byte} + int{w.scales[c]} - 254;
    const int e1 = e >> 1, e2 = e - e1;
    const float d = 0.25f * static_cast<float>(dots[c]);
    sums[c] = std::fma(d * formats::exp2_int(e1), formats::exp2_int(e2), sums[c]);
  }
}

void span(const SpanTile& tile, const UnpackedRows& a, const WeightsView& w, float* sums) noexcept {
  std::fill_n(sums, tile.rows * kTileCols, 0.0f);
  DecodedBlock block;
  for (int i = 0; i < tile.num_blocks; ++i) {
    const std::int64_t b = tile.first_block + i;
    decode_block(w, tile.first_col, b, block);
    for (int r = 0; r < tile.rows; ++r) {
      const std::int64_t row = tile.first_row + r, at = row * a.num_blocks + b;
      std::int16_t dots[kTileCols];
      block_dots(a.values + at * kBlock, block, dots);
      add_blocks(dots, a.scales[at], a.scale_bytes[at], a.moderate[row] != 0, block,
                 sums + r * kTileCols);
    }
  }
}

Status run(const RunArgs& args) noexcept {
  return run_tiles(args, {quantize_row_baseline, unpack_blocks_baseline},
                   {sum_spans<UnpackedRows, span>});
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 4, 4, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16, Layout::row_major, Layout::aiter_16x16,
                               Layout::gguf_mxfp4};
constexpr Config kConfigs[] = {{.block_m = kMaxTileRows, .block_n = kTileCols}};

}  // namespace

constexpr KernelDesc kPortable = {
    .name = "cpu_portable",
    .device = DeviceKind::cpu,
    .needs = "",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::device,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports_everything,
    .estimate_us = estimate,
    .workspace_bytes = mxfp4_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
