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

  /// Block b: 32 values.
  std::int8_t* block(std::int64_t b) const noexcept {
    return out.tile(row / kTileRows, b / 2) + row % kTileRows * kTileK + b % 2 * formats::kBlock;
  }
  std::uint8_t* scales() const noexcept { return out.scales + row * out.scales_stride(); }
  /// Into chunk_base and grain.
  std::int64_t chunk_at(std::int64_t chunk) const noexcept {
    return out.chunk_at(row / kTileRows, chunk) + row % kTileRows;
  }
  int chunk_blocks(std::int64_t chunk) const noexcept {
    const std::int64_t left = out.num_blocks - chunk * kChunkBlocks;
    return static_cast<int>(left < kChunkBlocks ? left : kChunkBlocks);
  }
  /// Sets row_base and uniform from the range of the scales that count (none: largest < smallest).
  /// Returns the row's base, or -1 where none holds them all.
  int choose_base(int largest, int smallest) const noexcept {
    const bool none = largest < smallest;
    const bool fits = none || (largest - smallest <= kMaxShift && largest != formats::kE8m0NaN);
    const int least = largest < kMaxShift ? 0 : largest - kMaxShift;
    const int base = !fits ? -1 : none ? formats::kE8m0One : least;
    out.uniform[row] = fits ? 1 : 0;
    out.row_base[row] = static_cast<std::uint8_t>(base);  // -1: 255
    return base;
  }
};

/// Quantizes k elements of bf16 at x. False, with nothing of use written, where a block is not
/// finite or too small for 16-bit arithmetic.
bool shift_row_bf16(const std::uint8_t* x, std::int64_t k, std::uint32_t rule_addend,
                    const ShiftedRow& row) noexcept;

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// Chooses a chunk's bases: the row's, or (row_base < 0) its own. Writes them; returns the shifts.
static inline __m128i fold(const ShiftedRow& row, std::int64_t chunk, __mmask16 counted,
                           int row_base) noexcept {
  auto* at = reinterpret_cast<__m128i*>(row.scales() + chunk * kChunkBlocks);
  const __m128i scales = _mm_loadu_si128(at);
  const FoldedChunk folded =
      row_base >= 0 ? FoldedChunk{_mm_set1_epi8(static_cast<char>(row_base)), kGrainChunk}
                    : fold_chunk(scales, counted);
  const auto pads = static_cast<__mmask16>(0xFFFFu << row.chunk_blocks(chunk));
  _mm_storeu_si128(at, _mm_mask_mov_epi8(folded.bases, pads, _mm_set1_epi8(formats::kE8m0One)));
  row.out.grain[row.chunk_at(chunk)] = folded.grain;
  row.out.chunk_base[row.chunk_at(chunk)] =
      folded.grain == kGrainChunk ? static_cast<std::uint8_t>(_mm_extract_epi8(folded.bases, 0))
                                  : formats::kE8m0NaN;
  return shifts_of(scales, folded.bases);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
