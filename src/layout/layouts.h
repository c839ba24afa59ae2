// Index maps of the weight layouts (docs/numerics.md, section 4), as closed forms. Every size and
// offset is 64 bits wide.
#pragma once

#include <cstdint>

#include "formats/mxfp4.h"
#include "mxgemm/tensor.h"
#include "mxgemm/weights.h"

namespace mxgemm::layout {

constexpr std::int64_t round_up(std::int64_t x, std::int64_t multiple) noexcept {
  return (x + multiple - 1) / multiple * multiple;
}
constexpr std::int64_t ceil_div(std::int64_t x, std::int64_t y) noexcept {
  return (x + y - 1) / y;
}

// aiter_16x16: codes pad N to 16 and K to 64; scales pad rows to 256 and columns to 8.
inline constexpr std::int64_t kAiterRows = 16, kAiterK = 64;
inline constexpr std::int64_t kAiterScaleRows = 256, kAiterScaleCols = 8;

/// Offset of code byte j of row n; row_bytes = padded K / 2.
constexpr std::int64_t aiter_code_offset(std::int64_t n, std::int64_t j,
                                         std::int64_t row_bytes) noexcept {
  return (n / 16) * 16 * row_bytes + (j / 16) * 256 + (n % 16) * 16 + j % 16;
}
/// Offset of the scale of block c of row r; cols = padded scale columns.
constexpr std::int64_t aiter_scale_offset(std::int64_t r, std::int64_t c,
                                          std::int64_t cols) noexcept {
  return (r / 32) * 32 * cols + (c / 8) * 256 + (c % 4) * 64 + (r % 16) * 4 + ((c % 8) / 4) * 2 +
         (r % 32) / 16;
}

// gguf_mxfp4: blocks of 17 bytes {scale, qs[16]}, qs[j] = code[j] | code[j + 16] << 4.
inline constexpr std::int64_t kGgufBlockBytes = 17;

// cpu_panel16: panels of 16 rows of W. A panel starts with 64 bytes {largest scale of each row
// [16], smallest [16], 32 x 0}, over the blocks that hold a code other than +-0 (none: 127 and
// 127); then along K follow groups of 128 elements (4 blocks):
//   4 blocks x 256 code bytes, then 4 x 16 scale bytes = 1088 bytes, 64-byte aligned.
// A block's code bytes are 4 x 16 x 4: quarter d holds, for each row, the 4 bytes that row_major
// has for elements 8d .. 8d+7. So one 64-byte vector has a row of W in each 32-bit lane; its low
// nibbles are elements 8d + {0,2,4,6}, its high nibbles 8d + {1,3,5,7}.
inline constexpr std::int64_t kPanelRows = 16;
inline constexpr std::int64_t kPanelGroupK = 128;
inline constexpr std::int64_t kPanelGroupBlocks = kPanelGroupK / formats::kBlock;
inline constexpr std::int64_t kPanelBlockBytes = kPanelRows * formats::kBlock / 2;
inline constexpr std::int64_t kPanelScalesOffset = kPanelGroupBlocks * kPanelBlockBytes;
inline constexpr std::int64_t kPanelGroupBytes =
    kPanelScalesOffset + kPanelGroupBlocks * kPanelRows;
inline constexpr std::int64_t kPanelHeaderBytes = 64;
static_assert(kPanelGroupBytes == 1088 && kPanelGroupBytes % 64 == 0);

/// Bytes of one panel of K elements.
constexpr std::int64_t panel_bytes(std::int64_t k) noexcept {
  return kPanelHeaderBytes + ceil_div(k, kPanelGroupK) * kPanelGroupBytes;
}
/// Offset of the panel with row n.
constexpr std::int64_t panel_offset(std::int64_t n, std::int64_t k) noexcept {
  return (n / 16) * panel_bytes(k);
}
/// Offset of the group with block b in the panel with row n.
constexpr std::int64_t panel_group_offset(std::int64_t n, std::int64_t b, std::int64_t k) noexcept {
  return panel_offset(n, k) + kPanelHeaderBytes + (b / 4) * kPanelGroupBytes;
}
/// Offset of code byte j (row_major numbering) of row n.
constexpr std::int64_t panel_code_offset(std::int64_t n, std::int64_t j, std::int64_t k) noexcept {
  return panel_group_offset(n, j / 16, k) + (j / 4 % 16) * 64 + (n % 16) * 4 + j % 4;
}
/// Offset of the scale of block b of row n.
constexpr std::int64_t panel_scale_offset(std::int64_t n, std::int64_t b, std::int64_t k) noexcept {
  return panel_group_offset(n, b, k) + kPanelScalesOffset + (b % 4) * 16 + n % 16;
}

/// Rows and columns that a layout stores for a logical [n, k].
constexpr std::int64_t padded_n(Layout layout, std::int64_t n) noexcept {
  return layout == Layout::aiter_16x16 || layout == Layout::cpu_panel16 ? round_up(n, 16) : n;
}
constexpr std::int64_t padded_k(Layout layout, std::int64_t k) noexcept {
  return layout == Layout::aiter_16x16   ? round_up(k, kAiterK)
         : layout == Layout::cpu_panel16 ? round_up(k, kPanelGroupK)
                                         : k;
}
constexpr std::int64_t aiter_scale_cols(std::int64_t k) noexcept {
  return round_up(scales_per_row(k), kAiterScaleCols);
}

}  // namespace mxgemm::layout
