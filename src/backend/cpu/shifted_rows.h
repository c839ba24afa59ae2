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
inline constexpr int kChunkBlocks = 16;  // 512 elements: what one grain is chosen for

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

/// How many blocks of a row share one base within a chunk: the most that fit.
enum Grain : std::uint8_t {
  kGrainChunk = 0,  // 16 blocks
  kGrainQuad = 1,   // 4 blocks, 128 elements
  kGrainPair = 2,   // 2 blocks, a tile
  kGrainBlock = 3,  // each block its own scale, nothing shifted
};

/// A doubled value v of a block with scale byte s is stored as v << (s - base), 0 <= s - base <= 3.
/// Blocks that share a base (max(largest scale - 3, 0)): all of the row's where their scales lie
/// within 3 of each other (a uniform row: its grains are kGrainChunk, its chunk bases the row's);
/// else those that the chunk's grain says. Blocks of zeros fit any base and don't count; where
/// nothing counts, the base is 127. NaN (255) fits no base: its chunk has kGrainBlock.
/// Rows past the last one: zeros, uniform, base 127.
struct ShiftedRows {
  std::int8_t* tiles = nullptr;        // [row tiles][k_tiles][16][64], elements as in UnpackedRows
  std::uint8_t* row_base = nullptr;    // [16 * row tiles] of uniform rows, else 255
  std::uint8_t* uniform = nullptr;     // [16 * row tiles] 1: one base for the whole row
  std::uint8_t* chunk_base = nullptr;  // [row tiles][num_chunks][16] where kGrainChunk, else 255
  std::uint8_t* grain = nullptr;       // [row tiles][num_chunks][16]
  std::uint8_t* scales = nullptr;      // [16 * row tiles][16 * num_chunks] the base of each block;
                                       // 127 past the last one
  std::int64_t num_blocks = 0, num_chunks = 0, k_tiles = 0;

  std::int8_t* tile(std::int64_t row_tile, std::int64_t k_tile) const noexcept {
    return tiles + (row_tile * k_tiles + k_tile) * kTileBytes;
  }
  /// Where the 16 rows of a tile have their bytes of a chunk, in chunk_base and grain.
  std::int64_t chunk_at(std::int64_t row_tile, std::int64_t chunk) const noexcept {
    return (row_tile * num_chunks + chunk) * kTileRows;
  }
  /// Bytes from one row of scales to the next.
  std::int64_t scales_stride() const noexcept { return num_chunks * kChunkBlocks; }
};

std::size_t shifted_rows_bytes(std::int64_t rows, std::int64_t k) noexcept;
ShiftedRows shifted_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept;

/// Quantizes (or takes over) all rows of A, in parallel; rows up to a multiple of 16 become zeros.
void shift_activations(const RunArgs& args, const ShiftedRows& out) noexcept;

}  // namespace mxgemm::cpu
