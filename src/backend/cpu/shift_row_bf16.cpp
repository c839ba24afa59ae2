// bf16 to ShiftedRows with AVX-512 VBMI, straight from the elements to the shifted values: the
// table that an element's quarter and sign index (bf16_quarters_avx512.h) is the one for its shift.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/bf16_quarters_avx512.h"
#include "backend/cpu/block_amax_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_row.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
namespace {

constexpr int kTileInput = 2 * kBlockBytes;  // of bf16 behind one row of a tile
constexpr std::int64_t kPrefetchTiles = 16;
constexpr std::int64_t kChunkElements = kChunkBlocks * formats::kBlock;

/// By shift, then by index.
struct ShiftTables {
  QuarterTable shift[kMaxShift + 1];
};
constexpr ShiftTables kShiftTables = {quarter_table(0), quarter_table(1), quarter_table(2),
                                      quarter_table(3)};
static_assert(sizeof(QuarterTable) == 64);

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")

/// What a chunk's blocks are read with, by block.
struct alignas(64) ChunkTools {
  std::uint32_t origins[kChunkBlocks];  // as store_origins writes them
  std::uint32_t tables[kChunkBlocks];   // offset of the table for the block's shift
};

static inline void set_tools(__m128i scales, __m128i shifts, ChunkTools& tools) noexcept {
  store_origins(scales, tools.origins);
  _mm512_store_si512(tools.tables, _mm512_slli_epi32(_mm512_cvtepu8_epi32(shifts), 6));
}

/// Two blocks into one row of a tile; `block`: the first of them within the chunk.
static inline void shift_pair(const std::uint8_t* x, const ChunkTools& tools, std::int64_t block,
                              std::int8_t* out) noexcept {
  // The first cache would miss the line that this row has in a later tile, and a store needs it.
  _mm_prefetch(out + kPrefetchTiles * kTileBytes, _MM_HINT_T0);
  const __m512i index = index_pair(x, tools.origins + block);
  const auto* tables = reinterpret_cast<const char*>(kShiftTables.shift);
  const __m512i low =
      _mm512_permutexvar_epi8(index, _mm512_load_si512(tables + tools.tables[block]));
  _mm512_store_si512(
      out, _mm512_mask_permutexvar_epi8(low, 0xFFFFFFFF00000000u, index,
                                        _mm512_load_si512(tables + tools.tables[block + 1])));
}

/// Pairs of blocks from the start of a chunk. Not inlined, as there gcc takes the arrays of `tools`
/// apart into registers, which costs shuffles.
[[gnu::noinline]] static void shift_pairs(const std::uint8_t* x, const ChunkTools& tools,
                                          std::int64_t count, std::int8_t* out) noexcept {
  for (std::int64_t i = 0; i < count; ++i)
    shift_pair(x + i * kTileInput, tools, 2 * i, out + i * kTileBytes);
}

/// Of a row whose scales are known; scale 0 means a block of zeros.
[[gnu::noinline]] static int best_base(const ShiftedRow& row) noexcept {
  ScaleHistogram histogram;
  for (std::int64_t b = 0; b < row.out.num_blocks; ++b) ++histogram.count[row.scales[b]];
  histogram.count[0] = 0;
  return histogram.best_base();
}

bool scan_row_bf16(const std::uint8_t* x, std::int64_t k, std::uint32_t rule_addend,
                   const ShiftedRow& row) noexcept {
  const std::int64_t padded = row.out.padded_blocks;
  __m512i largest16 = _mm512_setzero_si512(), smallest16 = _mm512_set1_epi16(255);
  __mmask32 slow = 0;
  for (std::int64_t first = 0; first < k; first += kAmaxElements) {
    const __m512i amax = amax_of(x + 2 * first, k - first);
    const __m512i scales = scales_of_amax(amax, rule_addend);
    slow |= slow_blocks(amax, scales);
    largest16 = _mm512_max_epu16(largest16, scales);  // blocks of zeros: 0
    smallest16 =
        _mm512_mask_min_epu16(smallest16, _mm512_test_epi16_mask(amax, amax), smallest16, scales);
    const __m256i bytes = _mm512_cvtepi16_epi8(scales);
    const std::int64_t block = first / formats::kBlock;
    auto* to = reinterpret_cast<__m128i*>(row.scales + block);
    _mm_storeu_si128(to, _mm256_castsi256_si128(bytes));
    if (block + kChunkBlocks < padded) _mm_storeu_si128(to + 1, _mm256_extracti128_si256(bytes, 1));
  }
  // VPHMINPOSUW finds both: the largest as the smallest complement.
  const __m512i above = _mm512_sub_epi16(_mm512_set1_epi16(255), largest16);
  const auto min_lane = [](__m512i v) noexcept {
    const __m256i half =
        _mm256_min_epu16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_extract_epi16(_mm_minpos_epu16(_mm_min_epu16(_mm256_castsi256_si128(half),
                                                            _mm256_extracti128_si256(half, 1))),
                             0);
  };
  const int largest = 255 - min_lane(above), smallest = min_lane(smallest16);
  row.set_base(largest < smallest                ? formats::kE8m0One
               : largest - smallest <= kMaxShift ? (largest < kMaxShift ? 0 : largest - kMaxShift)
                                                 : best_base(row));
  return slow == 0;
}

namespace {

/// A chunk of one row on its way to the tiles.
struct PendingChunk {
  const std::uint8_t* x;  // its elements
  std::int64_t elements;
  std::int8_t* out;
  ChunkTools tools;
};

}  // namespace

static inline void prepare_chunk(const std::uint8_t* x, std::int64_t k, const ShiftedRow& row,
                                 std::int64_t chunk, PendingChunk& pending) noexcept {
  const std::int64_t first = chunk * kChunkBlocks, left = k - first * formats::kBlock;
  const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.scales + first));
  set_tools(scales, shifts_of(scales, row.base()), pending.tools);
  pending.x = x + first * kBlockBytes;
  pending.elements = left < kChunkElements ? left : kChunkElements;
  pending.out = row.block(first);
}

static inline void shift_chunk(const PendingChunk& chunk) noexcept {
  const std::int64_t pairs = chunk.elements / kTileK, rest = chunk.elements % kTileK;
  shift_pairs(chunk.x, chunk.tools, pairs, chunk.out);
  if (rest == 0) return;
  alignas(64) std::uint8_t copy[kTileInput] = {};
  std::memcpy(copy, chunk.x + pairs * kTileInput, static_cast<std::size_t>(2 * rest));
  shift_pair(copy, chunk.tools, 2 * pairs, chunk.out + pairs * kTileBytes);
}

void shift_rows_bf16(const std::uint8_t* x, std::int64_t x_stride, std::int64_t k,
                     const ShiftedRows& out, std::int64_t first_row, unsigned rows) noexcept {
  // Each chunk is prepared before the one ahead of it is shifted, which hides the latency.
  PendingChunk chunks[2];
  unsigned count = 0;
  for (std::int64_t chunk = 0; chunk < out.padded_blocks / kChunkBlocks; ++chunk)
    for (unsigned rest = rows; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      prepare_chunk(x + i * x_stride, k, {out, first_row + i}, chunk, chunks[count % 2]);
      if (count != 0) shift_chunk(chunks[(count - 1) % 2]);
      ++count;
    }
  if (count != 0) shift_chunk(chunks[(count - 1) % 2]);
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
