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
inline constexpr int kChunkBlocks = 16;  // 512 elements: what a finer fold covers

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

/// A doubled value v of a block with scale byte s is stored as v << (s - base), where base is the
/// row's (all its scales within 3 of each other), else the chunk's (the same of 16 blocks), else s
/// itself. `scales` holds the base that belongs to each block. Blocks of zeros fit any base.
struct ShiftedRows {
  std::int8_t* tiles = nullptr;     // [row tiles][k_tiles][16][64], elements as in UnpackedRows
  std::uint8_t* scales = nullptr;   // [16 * row tiles][num_blocks]
  std::uint8_t* uniform = nullptr;  // [16 * row tiles] 1: one base for the whole row
  std::uint8_t* folded = nullptr;   // [16 * row tiles][num_chunks] 1: one base for the chunk
  std::uint8_t* codes = nullptr;    // [rows][16 * num_blocks] packed codes, scratch
  std::int64_t num_blocks = 0, num_chunks = 0, k_tiles = 0;

  const std::int8_t* tile(std::int64_t row_tile, std::int64_t k_tile) const noexcept {
    return tiles + (row_tile * k_tiles + k_tile) * kTileBytes;
  }
};

std::size_t shifted_rows_bytes(std::int64_t rows, std::int64_t k) noexcept;
ShiftedRows shifted_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept;

/// Quantizes (or takes over) all rows of A, in parallel; rows up to a multiple of 16 become zeros.
void shift_activations(const RunArgs& args, const ShiftedRows& out) noexcept;

}  // namespace mxgemm::cpu
