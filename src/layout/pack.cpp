// Converting between weight layouts, a stripe of rows at a time.
//
// Everything goes through the 16 code bytes of a block in row_major order, so a layout needs one
// reader and one writer. Its cost is paid once, when weights are loaded.
#include <algorithm>
#include <cstring>

#include "layout/weights_view.h"

namespace mxgemm {
namespace {

using formats::kBlock;

void write_block(const WeightsView& shape, const WeightsTarget& t, std::int64_t row, std::int64_t b,
                 const std::uint8_t codes[16], std::uint8_t scale) noexcept {
  switch (t.layout) {
    case Layout::row_major: {
      const std::int64_t bytes = std::min<std::int64_t>(16, codes_per_row_bytes(shape.k) - b * 16);
      std::memcpy(t.codes + row * t.codes_stride + b * 16, codes, static_cast<std::size_t>(bytes));
      t.scales[row * t.scales_stride + b] = scale;
      return;
    }
    case Layout::aiter_16x16: {
      const std::int64_t row_bytes = layout::padded_k(t.layout, shape.k) / 2;
      std::memcpy(t.codes + layout::aiter_code_offset(row, b * 16, row_bytes), codes, 16);
      t.scales[layout::aiter_scale_offset(row, b, layout::aiter_scale_cols(shape.k))] = scale;
      return;
    }
    case Layout::gguf_mxfp4: {
      std::uint8_t* block = t.codes + (row * (shape.k / kBlock) + b) * layout::kGgufBlockBytes;
      block[0] = scale;
      for (int j = 0; j < 16; ++j) {  // elements j and j + 16 share a byte
        const unsigned low = codes[j / 2] >> (4 * (j % 2));
        const unsigned high = codes[8 + j / 2] >> (4 * (j % 2));
        block[1 + j] = static_cast<std::uint8_t>((low & 15u) | (high << 4));
      }
      return;
    }
    case Layout::cpu_panel16:
      for (int d = 0; d < 4; ++d)
        std::memcpy(t.codes + layout::panel_code_offset(row, b * 16 + 4 * d, shape.k),
                    codes + 4 * d, 4);
      t.codes[layout::panel_scale_offset(row, b, shape.k)] = scale;
      return;
  }
}

/// Blocks along K, and rows, that a layout stores as code bytes.
std::int64_t stored_blocks(Layout layout, std::int64_t k) noexcept {
  return layout::ceil_div(layout::padded_k(layout, k), kBlock);
}

/// aiter's scale matrix is larger than its code matrix; nothing but pads lies beyond the latter.
void write_aiter_scale_pads(const WeightsView& w, const WeightsTarget& t, std::int64_t row_begin,
                            std::int64_t row_end) noexcept {
  const std::int64_t cols = layout::aiter_scale_cols(w.k);
  for (std::int64_t r = row_begin; r < row_end; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      t.scales[layout::aiter_scale_offset(r, c, cols)] = formats::kE8m0One;
}

/// Largest and smallest scale of each row of a panel, over blocks that are not all zeros.
void write_panel_header(const WeightsView& w, const WeightsTarget& t, std::int64_t row0) noexcept {
  std::uint8_t* header = t.codes + layout::panel_offset(row0, w.k);
  std::memset(header, formats::kE8m0One, 2 * layout::kPanelRows);
  std::memset(header + 2 * layout::kPanelRows, 0,
              layout::kPanelHeaderBytes - 2 * layout::kPanelRows);
  for (std::int64_t r = row0; r < std::min(w.n, row0 + layout::kPanelRows); ++r) {
    int largest = -1, smallest = 256;
    for (std::int64_t b = 0; b < scales_per_row(w.k); ++b) {
      std::uint8_t codes[16];
      read_block_codes(w, r, b, codes);
      if (!scale_counts(codes, w.scale(r, b))) continue;
      largest = std::max<int>(largest, w.scale(r, b));
      smallest = std::min<int>(smallest, w.scale(r, b));
    }
    if (largest < 0) continue;
    header[r - row0] = static_cast<std::uint8_t>(largest);
    header[layout::kPanelRows + r - row0] = static_cast<std::uint8_t>(smallest);
  }
}

}  // namespace

void read_block_codes(const WeightsView& w, std::int64_t row, std::int64_t b,
                      std::uint8_t codes[16]) noexcept {
  const std::int64_t count = std::min<std::int64_t>(kBlock, w.k - b * kBlock);
  const auto bytes = static_cast<std::size_t>((count + 1) / 2);
  switch (w.layout) {
    case Layout::row_major:
      std::memcpy(codes, w.codes + row * w.codes_stride + b * 16, bytes);
      break;
    case Layout::aiter_16x16:
      std::memcpy(codes, w.codes + layout::aiter_code_offset(row, b * 16, w.padded_k() / 2), 16);
      break;
    case Layout::cpu_panel16:
      for (int d = 0; d < 4; ++d)
        std::memcpy(codes + 4 * d, w.codes + layout::panel_code_offset(row, b * 16 + 4 * d, w.k),
                    4);
      break;
    case Layout::gguf_mxfp4:
      for (int j = 0; j < 16; ++j)
        codes[j] = static_cast<std::uint8_t>(w.code(row, b * kBlock + 2 * j) |
                                             (w.code(row, b * kBlock + 2 * j + 1) << 4));
      break;
  }
  if (count < kBlock) {  // never trust what lies past k
    if (count % 2 != 0) codes[bytes - 1] &= 0x0F;
    std::memset(codes + bytes, 0, 16 - bytes);
  }
}

void repack_rows(const WeightsView& w, const WeightsTarget& target, std::int64_t row_begin,
                 std::int64_t row_end) noexcept {
  const std::int64_t blocks = scales_per_row(w.k);
  const std::int64_t out_blocks = stored_blocks(target.layout, w.k);
  const bool last = row_end == w.n;
  const std::int64_t out_end = last ? layout::padded_n(target.layout, w.n) : row_end;
  if (target.layout == Layout::aiter_16x16)
    write_aiter_scale_pads(w, target, row_begin,
                           last ? layout::round_up(w.n, layout::kAiterScaleRows) : row_end);

  // Blocks outside, 16 rows inside: a panel's 256 code bytes are written while they are in cache.
  std::uint8_t codes[16];
  for (std::int64_t r0 = row_begin; r0 < out_end; r0 += 16) {
    if (target.layout == Layout::cpu_panel16) write_panel_header(w, target, r0);
    for (std::int64_t b = 0; b < out_blocks; ++b)
      for (std::int64_t r = r0; r < std::min(r0 + 16, out_end); ++r) {
        std::uint8_t scale = formats::kE8m0One;
        if (r < w.n && b < blocks) {
          read_block_codes(w, r, b, codes);
          scale = w.scale(r, b);
        } else {
          std::memset(codes, 0, sizeof codes);
        }
        write_block(w, target, r, b, codes, scale);
      }
  }
}

}  // namespace mxgemm
