// A for the AMX kernel: int8 tiles in which differences of block scales are folded in as shifts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/mxfp4.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

inline constexpr int kTileRows = 16;     // of A in a tile
inline constexpr int kTileBytes = 1024;  // 16 rows of 64 int8
inline constexpr int kTileK = 64;        // elements of K in a tile: two blocks
inline constexpr int kMaxShift = 3;      // 12 << 3 = 96 still fits an int8
inline constexpr int kChunkBlocks = 16;  // 512 elements

/// By code | shift << 4: the doubled E2M1 value, shifted left.
alignas(64) inline constexpr std::int8_t kShiftedValues[64] = {
    0, 1, 2,  3,  4,  6,  8,  12, 0, -1, -2,  -3,  -4,  -6,  -8,  -12,
    0, 2, 4,  6,  8,  12, 16, 24, 0, -2, -4,  -6,  -8,  -12, -16, -24,
    0, 4, 8,  12, 16, 24, 32, 48, 0, -4, -8,  -12, -16, -24, -32, -48,
    0, 8, 16, 24, 32, 48, 64, 96, 0, -8, -16, -24, -32, -48, -64, -96};
static_assert([] {
  for (unsigned i = 0; i < 64; ++i)
    if (kShiftedValues[i] != formats::e2m1_doubled(i & 15u) * (1 << (i >> 4))) return false;
  return true;
}());

/// A doubled value v of a block with scale byte s is stored as v << (s - base), where `base` is the
/// row's: the one that holds most of its blocks, 0 <= s - base <= 3. The few that it does not hold
/// (and all that are NaN) are outliers: zeros in the tiles, and kept apart as packed codes. Blocks
/// of zeros fit any base and don't count; where nothing counts, the base is 127.
/// Rows past the last one: zeros, base 127.
struct ShiftedRows {
  std::int8_t* tiles = nullptr;      // [row tiles][k_tiles][16][64], elements as in UnpackedRows
  std::uint8_t* row_base = nullptr;  // [16 * row tiles]
  std::uint8_t* scales = nullptr;    // [rows][padded_blocks] each block's own
  std::uint32_t* num_outliers = nullptr;  // [row tiles]
  std::uint16_t* outlier_rows = nullptr;  // [row tiles][num_blocks] bit r: the block of row r
  std::uint8_t* outlier_codes = nullptr;  // [rows][num_blocks][16], written for outliers alone
  std::int64_t num_blocks = 0, k_tiles = 0, padded_blocks = 0;

  std::int8_t* tile(std::int64_t row_tile, std::int64_t k_tile) const noexcept {
    return tiles + (row_tile * k_tiles + k_tile) * kTileBytes;
  }
};

std::size_t shifted_rows_bytes(std::int64_t rows, std::int64_t k) noexcept;
ShiftedRows shifted_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept;

/// Quantizes (or takes over) all rows of A, in parallel; rows up to a multiple of 16 become zeros.
void shift_activations(const RunArgs& args, const ShiftedRows& out) noexcept;

}  // namespace mxgemm::cpu
