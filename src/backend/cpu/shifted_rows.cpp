#include "backend/cpu/shifted_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {
namespace {

using formats::kBlock;

ShiftedRows carve(Arena& arena, std::int64_t rows, std::int64_t k) noexcept {
  ShiftedRows r;
  const std::int64_t padded = layout::round_up(rows, kTileRows);
  r.num_blocks = scales_per_row(k);
  r.num_chunks = layout::ceil_div(r.num_blocks, kChunkBlocks);
  r.k_tiles = layout::ceil_div(r.num_blocks, 2);
  r.tiles = arena.take<std::int8_t>(padded * r.k_tiles * kTileK);
  r.scales = arena.take<std::uint8_t>(padded * r.num_blocks);
  r.uniform = arena.take<std::uint8_t>(padded);
  r.folded = arena.take<std::uint8_t>(padded * r.num_chunks);
  r.codes = arena.take<std::uint8_t>(rows * r.num_blocks * 16);
  return r;
}

/// Packed codes of one row, pads 0, and its scales.
void quantize_into(const RunArgs& args, std::int64_t row, std::uint8_t* codes,
                   std::uint8_t* scales) noexcept {
  const std::int64_t k = args.w.k, blocks = scales_per_row(k);
  const auto bytes = static_cast<std::size_t>(codes_per_row_bytes(k));
  if (args.a_mxfp4.codes != nullptr) {
    const Mxfp4View& a = args.a_mxfp4;
    std::memcpy(codes, a.codes + row * a.codes_stride, bytes);
    std::memcpy(scales, a.scales + row * a.scales_stride, static_cast<std::size_t>(blocks));
    if (k % 2 != 0) codes[bytes - 1] &= 0x0F;  // callers' pads are not trusted
  } else {
    const auto* x = static_cast<const std::uint8_t*>(args.a.data) +
                    row * args.a.row_stride * size_of(args.a.dtype);
    quantize_row_avx512(x, args.a.dtype, k, scale_rule_addend(args.activation_rule),
                        args.non_finite, codes, scales);
  }
  std::memset(codes + bytes, 0, static_cast<std::size_t>(blocks) * 16 - bytes);
}

/// The base of blocks [begin, end), or -1 where none holds them: their scales differ by more than
/// 3, or one is NaN.
int common_base(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t begin,
                std::int64_t end) noexcept {
  int largest = -1, smallest = 256;
  for (std::int64_t b = begin; b < end; ++b) {
    if (!scale_counts(codes + b * 16, scales[b])) continue;
    largest = std::max<int>(largest, scales[b]);
    smallest = std::min<int>(smallest, scales[b]);
  }
  if (largest < 0) return formats::kE8m0One;
  if (largest == formats::kE8m0NaN || largest - smallest > kMaxShift) return -1;
  return std::max(largest - kMaxShift, 0);
}

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512vbmi")

/// A block's packed codes to shifted values, in the order of UnpackedRows.
static void expand_block(const std::uint8_t* codes, int shift, std::int8_t* out) noexcept {
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m128i even = _mm_and_si128(bytes, mask);
  const __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
  const __m256i order =
      _mm256_set_m128i(_mm_unpackhi_epi32(even, odd), _mm_unpacklo_epi32(even, odd));
  const __m256i index = _mm256_or_si256(order, _mm256_set1_epi8(static_cast<char>(shift << 4)));
  const __m512i values =
      _mm512_permutexvar_epi8(_mm512_castsi256_si512(index), _mm512_load_si512(kShiftedValues));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(values));
}

MXGEMM_ISA_END
namespace {

/// Blocks [begin, end) of a row into its tiles, with their base (-1: their own scales).
void expand_blocks(const ShiftedRows& out, std::int64_t row, std::int64_t begin, std::int64_t end,
                   int base) noexcept {
  const std::uint8_t* codes = out.codes + row * out.num_blocks * 16;
  std::uint8_t* scales = out.scales + row * out.num_blocks;
  std::int8_t* tiles =
      out.tiles + (row / kTileRows * out.k_tiles) * kTileBytes + row % kTileRows * kTileK;
  for (std::int64_t b = begin; b < end; ++b) {
    const int shift = base < 0 ? 0 : std::clamp(scales[b] - base, 0, kMaxShift);
    expand_block(codes + b * 16, shift, tiles + b / 2 * kTileBytes + b % 2 * kBlock);
    if (base >= 0) scales[b] = static_cast<std::uint8_t>(base);
  }
}

void shift_row(const RunArgs& args, std::int64_t row, const ShiftedRows& out) noexcept {
  std::uint8_t* codes = out.codes + row * out.num_blocks * 16;
  std::uint8_t* scales = out.scales + row * out.num_blocks;
  quantize_into(args, row, codes, scales);
  if (out.num_blocks % 2 != 0)  // the last tile's second half
    std::memset(out.tiles + ((row / kTileRows + 1) * out.k_tiles - 1) * kTileBytes +
                    row % kTileRows * kTileK + kBlock,
                0, kBlock);
  const int row_base = common_base(codes, scales, 0, out.num_blocks);
  out.uniform[row] = row_base >= 0 ? 1 : 0;
  for (std::int64_t chunk = 0; chunk < out.num_chunks; ++chunk) {
    const std::int64_t begin = chunk * kChunkBlocks;
    const std::int64_t end = std::min(out.num_blocks, begin + kChunkBlocks);
    const int base = row_base >= 0 ? row_base : common_base(codes, scales, begin, end);
    out.folded[row * out.num_chunks + chunk] = base >= 0 ? 1 : 0;
    expand_blocks(out, row, begin, end, base);
  }
}

/// A row past the last one: zeros under any scale.
void clear_row(std::int64_t row, const ShiftedRows& out) noexcept {
  for (std::int64_t t = 0; t < out.k_tiles; ++t)
    std::memset(
        out.tiles + (row / kTileRows * out.k_tiles + t) * kTileBytes + row % kTileRows * kTileK, 0,
        kTileK);
  std::memset(out.scales + row * out.num_blocks, formats::kE8m0One,
              static_cast<std::size_t>(out.num_blocks));
  std::memset(out.folded + row * out.num_chunks, 1, static_cast<std::size_t>(out.num_chunks));
  out.uniform[row] = 1;
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
  const std::int64_t rows = args.m(), padded = layout::round_up(rows, kTileRows);
  const std::int64_t step = std::max<std::int64_t>(1, 8192 / args.w.k);
  parallel_for(args.threads, layout::ceil_div(padded, step), [&](std::int64_t task) noexcept {
    for (std::int64_t r = task * step; r < std::min(padded, (task + 1) * step); ++r)
      r < rows ? shift_row(args, r, out) : clear_row(r, out);
  });
}

}  // namespace mxgemm::cpu
