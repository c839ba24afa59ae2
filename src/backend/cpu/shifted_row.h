// One row of ShiftedRows while it is written.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/fold_scales_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {

/// A row's part of the output.
struct ShiftedRow {
  const ShiftedRows& out;
  std::int64_t row;
  std::int8_t* tiles;     // its line of the first tile
  std::uint8_t* scales;   // of its blocks
  std::int64_t chunk_at;  // its byte of the first chunk, in chunk_base and grain

  ShiftedRow(const ShiftedRows& rows, std::int64_t r) noexcept
      : out(rows),
        row(r),
        tiles(rows.tile(r / kTileRows, 0) + r % kTileRows * kTileK),
        scales(rows.scales + r * rows.scales_stride()),
        chunk_at(rows.chunk_at(r / kTileRows, 0) + r % kTileRows) {}

  /// Block b: 32 values.
  std::int8_t* block(std::int64_t b) const noexcept {
    return tiles + b / 2 * kTileBytes + b % 2 * formats::kBlock;
  }
  int chunk_blocks(std::int64_t chunk) const noexcept {
    const std::int64_t left = out.num_blocks - chunk * kChunkBlocks;
    return static_cast<int>(left < kChunkBlocks ? left : kChunkBlocks);
  }
  /// The row's base, or -1 where it is not uniform.
  int base() const noexcept { return out.uniform[row] != 0 ? out.row_base[row] : -1; }
  /// Sets it from the range of the scales that count (none: largest < smallest).
  void choose_base(int largest, int smallest) const noexcept {
    const bool none = largest < smallest;
    const bool fits = none || (largest - smallest <= kMaxShift && largest != formats::kE8m0NaN);
    const int least = largest < kMaxShift ? 0 : largest - kMaxShift;
    const int base = !fits ? formats::kE8m0NaN : none ? formats::kE8m0One : least;
    out.uniform[row] = fits ? 1 : 0;
    out.row_base[row] = static_cast<std::uint8_t>(base);
  }
};

/// The first pass over k elements of bf16 at x: all blocks' own scales into row.scales(), and the
/// row's base. False where a block is not finite or too small for 16-bit arithmetic.
bool scan_row_bf16(const std::uint8_t* x, std::int64_t k, std::uint32_t rule_addend,
                   const ShiftedRow& row) noexcept;

/// The second pass, over those of 16 rows from first_row on that have a bit in `rows`: bases and
/// tiles. x: the first of the 16, x_stride: bytes from one to the next.
void shift_rows_bf16(const std::uint8_t* x, std::int64_t x_stride, std::int64_t k,
                     const ShiftedRows& out, std::int64_t first_row, unsigned rows) noexcept;

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// Chooses a chunk's bases: the row's or, where it is not uniform, its own. Writes them over the
/// scales; returns the shifts.
static inline __m128i fold(const ShiftedRow& row, std::int64_t chunk, __mmask16 counted) noexcept {
  auto* at = reinterpret_cast<__m128i*>(row.scales + chunk * kChunkBlocks);
  const __m128i scales = _mm_loadu_si128(at);
  const int row_base = row.base();
  const FoldedChunk folded =
      row_base >= 0 ? FoldedChunk{_mm_set1_epi8(static_cast<char>(row_base)), kGrainChunk}
                    : fold_chunk(scales, counted);
  const auto pads = static_cast<__mmask16>(0xFFFFu << row.chunk_blocks(chunk));
  _mm_storeu_si128(at, _mm_mask_mov_epi8(folded.bases, pads, _mm_set1_epi8(formats::kE8m0One)));
  const std::int64_t byte = row.chunk_at + chunk * kTileRows;
  row.out.grain[byte] = folded.grain;
  row.out.chunk_base[byte] = folded.grain == kGrainChunk
                                 ? static_cast<std::uint8_t>(_mm_extract_epi8(folded.bases, 0))
                                 : formats::kE8m0NaN;
  return shifts_of(scales, folded.bases);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
