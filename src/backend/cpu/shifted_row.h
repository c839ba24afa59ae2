// One row of ShiftedRows while it is written.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {

/// How often each scale occurs among the blocks that count, NaN left out.
struct ScaleHistogram {
  std::uint32_t count[256] = {};

  /// The base that holds most blocks, the smallest of several; 127 where nothing counts.
  int best_base() const noexcept {
    std::uint32_t best = 0, held = count[0] + count[1] + count[2];
    int base = formats::kE8m0One;
    for (int b = 0; b + kMaxShift < formats::kE8m0NaN; ++b) {
      held += count[b + kMaxShift];
      if (held > best) {
        best = held;
        base = b;
      }
      held -= count[b];
    }
    return base;
  }
};

/// A row's part of the output.
struct ShiftedRow {
  const ShiftedRows& out;
  std::int64_t row;
  std::int8_t* tiles;    // its line of the first tile
  std::uint8_t* scales;  // of its blocks

  ShiftedRow(const ShiftedRows& rows, std::int64_t r) noexcept
      : out(rows),
        row(r),
        tiles(rows.tile(r / kTileRows, 0) + r % kTileRows * kTileK),
        scales(rows.scales + r * rows.padded_blocks) {}

  /// Block b: 32 values.
  std::int8_t* block(std::int64_t b) const noexcept {
    return tiles + b / 2 * kTileBytes + b % 2 * formats::kBlock;
  }
  int base() const noexcept { return out.row_base[row]; }
  void set_base(int base) const noexcept { out.row_base[row] = static_cast<std::uint8_t>(base); }

  /// Takes a block that the base does not hold out of the tiles. Other rows of the tile may be in
  /// other threads' hands.
  void set_apart(std::int64_t b, const std::uint8_t codes[16]) const noexcept {
    std::memcpy(out.outlier_codes + (row * out.num_blocks + b) * 16, codes, 16);
    std::memset(block(b), 0, formats::kBlock);
    const std::int64_t row_tile = row / kTileRows;
    std::atomic_ref(out.outlier_rows[row_tile * out.num_blocks + b])
        .fetch_or(static_cast<std::uint16_t>(1u << row % kTileRows), std::memory_order_relaxed);
    std::atomic_ref(out.num_outliers[row_tile]).fetch_add(1, std::memory_order_relaxed);
  }
};

/// Whether `base` holds a scale that counts.
constexpr bool base_holds(int base, int scale) noexcept {
  return scale != formats::kE8m0NaN && scale >= base && scale <= base + kMaxShift;
}

/// The first pass over k elements of bf16 at x: all blocks' own scales into row.scales, and the
/// row's base. False where a block is not finite or too small for 16-bit arithmetic.
bool scan_row_bf16(const std::uint8_t* x, std::int64_t k, std::uint32_t rule_addend,
                   const ShiftedRow& row) noexcept;

/// The second pass, over those of 16 rows from first_row on that have a bit in `rows`: tiles, in
/// which outliers have yet to be set apart. x: the first of the 16, x_stride: bytes from one to the
/// next.
void shift_rows_bf16(const std::uint8_t* x, std::int64_t x_stride, std::int64_t k,
                     const ShiftedRows& out, std::int64_t first_row, unsigned rows) noexcept;

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// Shifts of 16 blocks against the row's base. Blocks of zeros may get any.
static inline __m128i shifts_of(__m128i scales, int base) noexcept {
  return _mm_min_epu8(_mm_subs_epu8(scales, _mm_set1_epi8(static_cast<char>(base))),
                      _mm_set1_epi8(kMaxShift));
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
