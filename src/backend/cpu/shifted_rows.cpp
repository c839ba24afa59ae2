// Two passes over a row, since the base of its blocks is known only after all their scales are.
#include "backend/cpu/shifted_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/activations.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/shifted_row.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;

constexpr std::int64_t kBatchBlocks = 32;  // quantized at a time, into 544 bytes of stack

ShiftedRows carve(Arena& arena, std::int64_t rows, std::int64_t k) noexcept {
  ShiftedRows r;
  const std::int64_t padded = layout::round_up(rows, kTileRows);
  const std::int64_t row_tiles = padded / kTileRows;
  r.num_blocks = scales_per_row(k);
  r.padded_blocks = layout::round_up(r.num_blocks, kChunkBlocks);
  r.k_tiles = layout::ceil_div(r.num_blocks, 2);
  r.tiles = arena.take<std::int8_t>(padded * r.k_tiles * kTileK);
  r.row_base = arena.take<std::uint8_t>(padded);
  r.scales = arena.take<std::uint8_t>(rows * r.padded_blocks);
  r.num_outliers = arena.take<std::uint32_t>(row_tiles);
  r.outlier_rows = arena.take<std::uint16_t>(row_tiles * r.num_blocks);
  r.outlier_codes = arena.take<std::uint8_t>(rows * r.num_blocks * 16);
  return r;
}

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512vbmi")

/// A block's packed codes, in the first half of its place, to shifted values, in the order of
/// UnpackedRows.
static void expand_block(std::int8_t* block, int shift) noexcept {
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block));
  const __m128i even = _mm_and_si128(bytes, mask);
  const __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
  const __m256i order =
      _mm256_set_m128i(_mm_unpackhi_epi32(even, odd), _mm_unpacklo_epi32(even, odd));
  const __m256i index = _mm256_or_si256(order, _mm256_set1_epi8(static_cast<char>(shift << 4)));
  const __m512i values =
      _mm512_permutexvar_epi8(_mm512_castsi256_si512(index), _mm512_load_si512(kShiftedValues));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block), _mm512_castsi512_si256(values));
}

MXGEMM_ISA_END
namespace {

/// A row of any type: its packed codes wait in the first halves of the blocks' places in the tiles.
void shift_codes(const RunArgs& args, const ShiftedRow& row) noexcept {
  const std::int64_t num_blocks = row.out.num_blocks;
  ScaleHistogram histogram;
  for (std::int64_t first = 0; first < num_blocks; first += kBatchBlocks) {
    const std::int64_t count = std::min(kBatchBlocks, num_blocks - first);
    std::uint8_t codes[kBatchBlocks * 16], scales[kBatchBlocks];
    packed_blocks(args, quantize_row_avx512, row.row, first, count, codes, scales);
    for (std::int64_t b = 0; b < count; ++b) {
      std::memcpy(row.block(first + b), codes + b * 16, 16);
      row.scales[first + b] = scales[b];
      histogram.count[scales[b]] += scale_counts(codes + b * 16, scales[b]) ? 1 : 0;
    }
  }
  const int base = histogram.best_base();
  row.set_base(base);
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    std::uint8_t codes[16];
    std::memcpy(codes, row.block(b), sizeof codes);
    const int scale = row.scales[b];
    if (!base_holds(base, scale) && scale_counts(codes, row.scales[b]))
      row.set_apart(b, codes);
    else
      expand_block(row.block(b), std::clamp(scale - base, 0, kMaxShift));
  }
  if (num_blocks % 2 != 0) std::memset(row.block(num_blocks), 0, kBlock);  // half of the last tile
}

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl")

/// The outliers of a row whose scales of 0 mean blocks of zeros.
static void set_outliers_apart(const RunArgs& args, const ShiftedRow& row) noexcept {
  const __m128i base = _mm_set1_epi8(static_cast<char>(row.base()));
  for (std::int64_t first = 0; first < row.out.num_blocks; first += kChunkBlocks) {
    const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.scales + first));
    unsigned outside = _mm_cmpgt_epu8_mask(_mm_sub_epi8(scales, base), _mm_set1_epi8(kMaxShift)) &
                       _mm_test_epi8_mask(scales, scales);
    for (; outside != 0; outside &= outside - 1) {
      const std::int64_t b = first + __builtin_ctz(outside);
      if (b >= row.out.num_blocks) break;
      std::uint8_t codes[16], scale;
      packed_blocks(args, quantize_row_avx512, row.row, b, 1, codes, &scale);
      row.set_apart(b, codes);
    }
  }
}

MXGEMM_ISA_END
namespace {

/// `count` <= 16 rows. All first passes come before all second ones: the wait for a row's base is
/// then filled with other rows' work.
void shift_rows(const RunArgs& args, std::int64_t first, std::int64_t count,
                const ShiftedRows& out) noexcept {
  unsigned scanned = 0;
  if (args.a_mxfp4.codes == nullptr && args.a.dtype == DType::bf16) {
    const std::int64_t k = args.w.k, stride = args.a.row_stride * 2;
    const auto* x = static_cast<const std::uint8_t*>(args.a.data) + first * stride;
    const std::uint32_t addend = scale_rule_addend(args.activation_rule);
    for (std::int64_t i = 0; i < count; ++i)
      scanned |= unsigned{scan_row_bf16(x + i * stride, k, addend, {out, first + i})} << i;
    shift_rows_bf16(x, stride, k, out, first, scanned);
    for (std::int64_t i = 0; i < count; ++i)
      if ((scanned >> i & 1u) != 0) set_outliers_apart(args, {out, first + i});
  }
  for (std::int64_t i = 0; i < count; ++i)
    if ((scanned >> i & 1u) == 0) shift_codes(args, {out, first + i});
}

/// The rows from `first` on, which is past the last one, to the end of its tile.
void clear_rows(const ShiftedRows& out, std::int64_t first) noexcept {
  const auto count = static_cast<std::size_t>(kTileRows - first % kTileRows);
  std::int8_t* line = out.tile(first / kTileRows, 0) + first % kTileRows * kTileK;
  for (std::int64_t t = 0; t < out.k_tiles; ++t)
    std::memset(line + t * kTileBytes, 0, count * kTileK);
  std::memset(out.row_base + first, formats::kE8m0One, count);
}

/// Rows a task takes: a power of two up to a tile's, and up to 16 KiB of bf16, which stay in the
/// first cache between the two passes.
std::int64_t rows_per_task(std::int64_t k) noexcept {
  std::int64_t rows = kTileRows;
  while (rows > 1 && rows * k > 8192) rows /= 2;
  return rows;
}

}  // namespace

std::size_t shifted_rows_bytes(std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(nullptr);
  carve(arena, rows, k);
  return arena.used();
}

ShiftedRows shifted_rows(std::byte* workspace, std::int64_t rows, std::int64_t k) noexcept {
  Arena arena(workspace);
  return carve(arena, rows, k);
}

void shift_activations(const RunArgs& args, const ShiftedRows& out) noexcept {
  const std::int64_t rows = args.m(), step = rows_per_task(args.w.k);
  const std::int64_t tasks = layout::ceil_div(rows, step);
  const auto row_tiles = static_cast<std::size_t>(layout::ceil_div(rows, kTileRows));
  std::memset(out.num_outliers, 0, row_tiles * sizeof *out.num_outliers);
  std::memset(out.outlier_rows, 0,
              row_tiles * static_cast<std::size_t>(out.num_blocks) * sizeof *out.outlier_rows);
  parallel_for(args.threads, tasks, [&](std::int64_t task) noexcept {
    const std::int64_t first = task * step;
    shift_rows(args, first, std::min(step, rows - first), out);
    if (task + 1 == tasks && rows % kTileRows != 0) clear_rows(out, rows);
  });
}

}  // namespace mxgemm::cpu
