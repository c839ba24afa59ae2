// cpu_portable: no intrinsics, any architecture, any weight layout.
//
// Decodes 16 rows of W for one span into int16 [element][row] on the stack, once for 8 rows of A;
// the multiply-accumulate loop over the 16 rows is one that compilers turn into vector code. A
// whole block's dot product of doubled values fits an int16: at most 32 * 12 * 12 = 4608.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/kernels.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;

/// One block of 16 rows of W, decoded.
struct DecodedBlock {
  alignas(64) std::int16_t values[kBlock][kTileCols];  // doubled, elements in the order of A's
  std::uint8_t scales[kTileCols];
  bool moderate;  // as UnpackedRows::moderate
};

void decode_block(const WeightsView& w, std::int64_t first_row, std::int64_t b,
                  DecodedBlock& out) noexcept {
  out.moderate = true;
  for (int c = 0; c < kTileCols; ++c) {
    std::uint8_t codes[16] = {};
    std::uint8_t scale = formats::kE8m0One;
    if (first_row + c < w.n) {
      read_block_codes(w, first_row + c, b, codes);
      scale = w.scale(first_row + c, b);
    }
    for (int d = 0; d < 4; ++d)
      for (int i = 0; i < 4; ++i) {  // low nibbles, then high ones, in every 8 elements
        const unsigned byte = codes[4 * d + i];
        out.values[8 * d + i][c] = static_cast<std::int16_t>(formats::e2m1_doubled(byte & 15u));
        out.values[8 * d + 4 + i][c] = static_cast<std::int16_t>(formats::e2m1_doubled(byte >> 4));
      }
    out.scales[c] = scale;
    out.moderate = out.moderate && scale >= kModerateMin && scale <= kModerateMax;
  }
}

void block_dots(const std::int8_t* a, const DecodedBlock& w,
                std::int16_t (&dots)[kTileCols]) noexcept {
  std::fill(std::begin(dots), std::end(dots), std::int16_t{0});
  for (int k = 0; k < kBlock; ++k)
    for (int c = 0; c < kTileCols; ++c)
      dots[c] = static_cast<std::int16_t>(dots[c] + a[k] * w.values[k][c]);
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

void span(const SpanTile& tile, const UnpackedRows& a, const WeightsView& w,
          float* sums) noexcept {
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
  return run_tiles(args, quantize_row_baseline, span);
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
    .workspace_bytes = mxfp4_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
