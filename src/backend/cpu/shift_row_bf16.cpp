// bf16 to ShiftedRows with AVX-512 VBMI, straight from the elements to the shifted values.
//
// An element's bits count quarters of a binade from 1/8 of its block's scale upwards; quarter and
// sign together index a table of 64 values, of which there is one for each shift. Elements above a
// threshold lie in a higher quarter than those below it once the count is rounded up; where a tie
// rounds up as well (.75, 1.75 and 3.5, to the even code; their top mantissa bit is set) a bit
// below the quarters is set first.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/block_amax_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_row.h"
#include "formats/mxfp4.h"

namespace mxgemm::cpu {
namespace {

constexpr int kTileInput = 2 * kBlockBytes;  // of bf16 behind one row of a tile

/// By shift, then by quarter | sign << 5.
struct QuarterTables {
  alignas(64) std::int8_t values[kMaxShift + 1][64];
};
constexpr QuarterTables kQuarterTables = [] {
  constexpr unsigned kThresholds[7] = {4, 10, 13, 15, 17, 19, 21};  // .25 .75 1.25 1.75 2.5 3.5 5
  QuarterTables t{};
  for (int shift = 0; shift <= kMaxShift; ++shift)
    for (unsigned quarter = 0; quarter < 32; ++quarter) {
      unsigned code = 0;
      for (const unsigned threshold : kThresholds) code += quarter > threshold ? 1 : 0;
      const int value = formats::e2m1_doubled(code) << shift;
      t.values[shift][quarter] = static_cast<std::int8_t>(value);
      t.values[shift][quarter + 32] = static_cast<std::int8_t>(-value);
    }
  return t;
}();

}  // namespace

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")

/// What a chunk's blocks are read with, by block.
struct alignas(64) ChunkTools {
  std::uint32_t origins[kChunkBlocks];  // what to subtract from an element, twice in 32 bits
  std::uint32_t tables[kChunkBlocks];   // offset of the table for the block's shift
};

static inline void set_tools(__m128i scales, __m128i shifts, ChunkTools& tools) noexcept {
  // Elements are doubled, which drops their sign: 64 counts one quarter, 256 one binade. The bits
  // of 2^(scale - 127) / 8 are (scale - 3) << 8; 63 less rounds the count of quarters up. A block
  // of zeros (scale 0) gets a number above all its elements: they saturate to 0 like any tiny one.
  const __m512i origin = _mm512_sub_epi32(_mm512_slli_epi32(_mm512_cvtepu8_epi32(scales), 8),
                                          _mm512_set1_epi32(3 * 256 + 63));
  const __m512i low = _mm512_and_si512(origin, _mm512_set1_epi32(0xFFFF));
  _mm512_store_si512(tools.origins, _mm512_or_si512(low, _mm512_slli_epi32(origin, 16)));
  _mm512_store_si512(tools.tables, _mm512_slli_epi32(_mm512_cvtepu8_epi32(shifts), 6));
}

/// Bits 6..10: quarters of a block's 32 elements; bit 11: signs.
static inline __m512i count_quarters(const std::uint8_t* x, std::uint32_t origin) noexcept {
  const __m512i bits = _mm512_loadu_si512(x);
  const __m512i down = _mm512_srli_epi16(bits, 4);  // top mantissa bit to 2, sign to 11
  const __m512i doubled = _mm512_add_epi16(bits, bits);
  const __m512i sticky =  // doubled | (down & 4)
      _mm512_ternarylogic_epi32(doubled, down, _mm512_set1_epi16(4), 0xF8);
  const __m512i quarters = _mm512_subs_epu16(sticky, _mm512_set1_epi32(static_cast<int>(origin)));
  return _mm512_ternarylogic_epi32(quarters, down, _mm512_set1_epi16(0x800), 0xF8);
}

/// Two blocks into one row of a tile; `block`: the first of them within the chunk.
static inline void shift_pair(const std::uint8_t* x, const ChunkTools& tools, int block,
                              std::int8_t* out) noexcept {
  const __m512i a = count_quarters(x, tools.origins[block]);
  const __m512i b = count_quarters(x + kBlockBytes, tools.origins[block + 1]);
  // a's indices to the even bytes, b's to the odd ones; then in the order of UnpackedRows.
  const __m512i mixed = _mm512_ternarylogic_epi32(_mm512_srli_epi16(a, 6), _mm512_slli_epi16(b, 2),
                                                  _mm512_set1_epi16(-256), 0xF8);
  const __m512i order = _mm512_set_epi8(
      63, 59, 55, 51, 61, 57, 53, 49, 47, 43, 39, 35, 45, 41, 37, 33, 31, 27, 23, 19, 29, 25, 21,
      17, 15, 11, 7, 3, 13, 9, 5, 1, 62, 58, 54, 50, 60, 56, 52, 48, 46, 42, 38, 34, 44, 40, 36, 32,
      30, 26, 22, 18, 28, 24, 20, 16, 14, 10, 6, 2, 12, 8, 4, 0);
  const __m512i index = _mm512_permutexvar_epi8(order, mixed);
  const auto* tables = reinterpret_cast<const char*>(kQuarterTables.values);
  const __m512i low =
      _mm512_permutexvar_epi8(index, _mm512_load_si512(tables + tools.tables[block]));
  _mm512_store_si512(
      out, _mm512_mask_permutexvar_epi8(low, 0xFFFFFFFF00000000u, index,
                                        _mm512_load_si512(tables + tools.tables[block + 1])));
}

/// The scales of all blocks of a row, as bytes, and their range. False where a block is slow.
static inline bool scan_row(const std::uint8_t* x, std::int64_t k, std::uint32_t addend,
                            const ShiftedRow& row, int& largest, int& smallest) noexcept {
  constexpr std::int64_t kEight = 8 * formats::kBlock, kElements = kAmaxBlocks * formats::kBlock;
  const std::int64_t padded = row.out.scales_stride();
  __m512i largest16 = _mm512_setzero_si512(), smallest16 = _mm512_set1_epi16(255);
  __mmask32 slow = 0;
  for (std::int64_t first = 0; first < k; first += kElements) {
    __m512i eights[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = first + i * kEight, left = k - at;
      if (left >= kEight) {
        eights[i] = amax8(x + 2 * at);
      } else if (left > 0) {
        alignas(64) std::uint8_t copy[8 * kBlockBytes] = {};
        std::memcpy(copy, x + 2 * at, static_cast<std::size_t>(2 * left));
        eights[i] = amax8(copy);
      } else {
        eights[i] = _mm512_setzero_si512();
      }
    }
    const __m512i amax = amax32(eights[0], eights[1], eights[2], eights[3]);
    const __m512i scales = scales_of_amax(amax, addend);
    slow |= slow_blocks(amax, scales);
    largest16 = _mm512_max_epu16(largest16, scales);  // blocks of zeros: 0
    smallest16 =
        _mm512_mask_min_epu16(smallest16, _mm512_test_epi16_mask(amax, amax), smallest16, scales);
    const __m256i bytes = _mm512_cvtepi16_epi8(scales);
    const std::int64_t block = first / formats::kBlock;
    auto* to = reinterpret_cast<__m128i*>(row.scales() + block);
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
  largest = 255 - min_lane(above);
  smallest = min_lane(smallest16);
  return slow == 0;
}

bool shift_row_bf16(const std::uint8_t* x, std::int64_t k, std::uint32_t rule_addend,
                    const ShiftedRow& row) noexcept {
  int largest, smallest;
  if (!scan_row(x, k, rule_addend, row, largest, smallest)) return false;
  const int row_base = row.choose_base(largest, smallest);
  std::int8_t* out = row.block(0);
  std::int64_t left = 2 * k;  // bytes
  for (std::int64_t chunk = 0; chunk < row.out.num_chunks; ++chunk) {
    const __m128i scales =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.scales() + chunk * kChunkBlocks));
    ChunkTools tools;
    // Scale 0: a block of zeros, as others that small are slow.
    set_tools(scales, fold(row, chunk, _mm_test_epi8_mask(scales, scales), row_base), tools);
    for (int b = 0; b < kChunkBlocks && left > 0; b += 2) {
      if (left >= kTileInput) {
        shift_pair(x, tools, b, out);
      } else {
        alignas(64) std::uint8_t copy[kTileInput] = {};
        std::memcpy(copy, x, static_cast<std::size_t>(left));
        shift_pair(copy, tools, b, out);
      }
      x += kTileInput;
      left -= kTileInput;
      out += kTileBytes;
    }
  }
  return true;
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
