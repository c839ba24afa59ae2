// One matrix W[n, k] as stored, in any layout: what kernels and packers read.
#pragma once

#include <cstdint>

#include "layout/layouts.h"
#include "mxgemm/weights.h"

namespace mxgemm {

struct WeightsView {
  Layout layout = Layout::row_major;
  std::int64_t n = 0, k = 0;  // logical
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;  // null where codes and scales interleave
  std::int64_t codes_stride = 0;         // row_major: bytes between rows
  std::int64_t scales_stride = 0;

  /// E2M1 code of element (row, col); row < n, col < k.
  unsigned code(std::int64_t row, std::int64_t col) const noexcept {
    const std::int64_t j = col / 2;
    switch (layout) {
      case Layout::row_major:
        return nibble(codes[row * codes_stride + j], col);
      case Layout::aiter_16x16:
        return nibble(codes[layout::aiter_code_offset(row, j, padded_k() / 2)], col);
      case Layout::gguf_mxfp4: {
        const std::int64_t i = col % 32;  // the halves of a block share bytes
        return nibble(gguf_block(row, col / 32)[1 + i % 16], i / 16);
      }
      case Layout::cpu_panel16:
        return nibble(codes[layout::panel_code_offset(row, j, k)], col);
    }
    return 0;
  }

  /// Scale byte of block b of a row.
  std::uint8_t scale(std::int64_t row, std::int64_t b) const noexcept {
    switch (layout) {
      case Layout::row_major:
        return scales[row * scales_stride + b];
      case Layout::aiter_16x16:
        return scales[layout::aiter_scale_offset(row, b, layout::aiter_scale_cols(k))];
      case Layout::gguf_mxfp4:
        return gguf_block(row, b)[0];
      case Layout::cpu_panel16:
        return codes[layout::panel_scale_offset(row, b, k)];
    }
    return 0;
  }

  std::int64_t padded_k() const noexcept { return layout::padded_k(layout, k); }

 private:
  static unsigned nibble(std::uint8_t byte, std::int64_t odd) noexcept {
    return (odd & 1) ? byte >> 4 : byte & 15u;
  }
  const std::uint8_t* gguf_block(std::int64_t row, std::int64_t b) const noexcept {
    return codes + (row * (k / 32) + b) * layout::kGgufBlockBytes;
  }
};

/// The 16 code bytes of block b of a row in row_major order; elements past k are code 0.
void read_block_codes(const WeightsView& w, std::int64_t row, std::int64_t b,
                      std::uint8_t codes[16]) noexcept;

/// Whether a block's scale matters to its products: not where all its codes are +-0, unless it is
/// NaN.
inline bool scale_counts(const std::uint8_t codes[16], std::uint8_t scale) noexcept {
  unsigned magnitudes = 0;
  for (int j = 0; j < 16; ++j) magnitudes |= codes[j] & 0x77u;
  return magnitudes != 0 || scale == formats::kE8m0NaN;
}

/// Where to write one matrix in a layout; pads of the layout included.
struct WeightsTarget {
  Layout layout = Layout::row_major;
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  std::int64_t codes_stride = 0, scales_stride = 0;  // row_major only
};

/// Converts rows [row_begin, row_end) of w. Call it for the rows of whole stripes (multiples of
/// repack_stripe), the last one up to w.n: pad rows are written with the last stripe.
void repack_rows(const WeightsView& w, const WeightsTarget& target, std::int64_t row_begin,
                 std::int64_t row_end) noexcept;

/// A multiple of the layout's row tile, and small: a thread of a pool packs about the rows that it
/// will read in a product, so that their pages lie in memory near it.
constexpr std::int64_t repack_stripe(Layout layout) noexcept {
  return layout == Layout::aiter_16x16 ? layout::kAiterScaleRows : 2 * layout::kPanelRows;
}

}  // namespace mxgemm
