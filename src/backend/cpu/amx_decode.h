// W in cpu_panel16 -> int8 tiles for the AMX kernel: 32 columns of C (two panels) at a time, with
// differences of block scales folded in as shifts.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/isa_region.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"
#include "layout/weights_view.h"

namespace mxgemm::cpu {

inline constexpr int kPairCols = 32;

/// How many blocks of a panel share one base within a chunk: the most that fit all 16 rows.
enum Grain : std::uint8_t {
  kGrainChunk = 0,  // 16 blocks
  kGrainQuad = 1,   // 4 blocks, 128 elements
  kGrainPair = 2,   // 2 blocks, a tile
  kGrainBlock = 3,  // each block its own scale, nothing shifted
};

/// The bases of 16 blocks of a panel's rows, block by block.
struct alignas(64) ChunkBases {
  std::uint8_t base[kChunkBlocks][16];
};

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")

/// Two neighbouring panels; the last one twice where their number is odd.
struct PanelPair {
  const std::uint8_t* groups[2];
  __m128i base[2];  // of each row of W, where uniform
  bool uniform;     // one base is enough for the whole of K
};

static inline __m128i load_bytes16(const std::uint8_t* p) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

/// A base for rows whose scales span smallest..largest (nothing counts: largest 0, smallest 255);
/// false where one base is not enough for all 16.
static inline bool common_bases(__m128i largest, __m128i smallest, __m128i& base) noexcept {
  const __m128i three = _mm_set1_epi8(kMaxShift);
  const __mmask16 nothing = _mm_cmpgt_epu8_mask(smallest, largest);
  base = _mm_mask_set1_epi8(_mm_subs_epu8(largest, three), nothing,
                            static_cast<char>(formats::kE8m0One));
  const __mmask16 wide = _mm_cmpgt_epu8_mask(_mm_subs_epu8(largest, smallest), three) |
                         _mm_cmpeq_epi8_mask(largest, _mm_set1_epi8(-1));
  return wide == 0;
}

static inline PanelPair panel_pair(const WeightsView& w, std::int64_t col) noexcept {
  PanelPair pair;
  pair.uniform = true;
  for (int p = 0; p < 2; ++p) {
    const std::int64_t first = col + 16 * p < w.n ? col + 16 * p : col;
    const std::uint8_t* panel = w.codes + layout::panel_offset(first, w.k);
    pair.groups[p] = panel + layout::kPanelHeaderBytes;
    pair.uniform &= common_bases(load_bytes16(panel), load_bytes16(panel + 16), pair.base[p]);
  }
  return pair;
}

static inline const std::uint8_t* block_codes(const std::uint8_t* groups,
                                              std::int64_t block) noexcept {
  return groups + block / 4 * layout::kPanelGroupBytes + block % 4 * layout::kPanelBlockBytes;
}
static inline __m128i block_scales(const std::uint8_t* groups, std::int64_t block) noexcept {
  return load_bytes16(groups + block / 4 * layout::kPanelGroupBytes + layout::kPanelScalesOffset +
                      block % 4 * 16);
}

/// A block: 256 code bytes to 512 int8, 4 elements of K x 16 rows of W a 64-byte line. A scale
/// that is further from the base than 3 belongs to codes of 0.
static inline void decode_block(const std::uint8_t* groups, std::int64_t block, __m128i base,
                                std::int8_t* out) noexcept {
  const __m512i table = _mm512_load_si512(kShiftedValues);
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i spread = _mm512_broadcast_i32x4(  // byte 0 of each lane to all four
      _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
  const __m128i shifts =
      _mm_min_epu8(_mm_subs_epu8(block_scales(groups, block), base), _mm_set1_epi8(kMaxShift));
  const __m512i high_bits =
      _mm512_shuffle_epi8(_mm512_cvtepu8_epi32(_mm_slli_epi16(shifts, 4)), spread);
  const std::uint8_t* codes = block_codes(groups, block);
  for (int d = 0; d < 4; ++d) {
    const __m512i bytes = _mm512_loadu_si512(codes + d * 64);
    // (codes & 15) | shift << 4
    const __m512i low = _mm512_ternarylogic_epi32(bytes, mask, high_bits, 0xEA);
    const __m512i high =
        _mm512_ternarylogic_epi32(_mm512_srli_epi16(bytes, 4), mask, high_bits, 0xEA);
    _mm512_store_si512(out + 128 * d, _mm512_permutexvar_epi8(low, table));
    _mm512_store_si512(out + 128 * d + 64, _mm512_permutexvar_epi8(high, table));
  }
}

/// A tile of each panel of a pair (two blocks; the second may be a pad), to be decoded block by
/// block between tile products.
struct TileDecoder {
  const std::uint8_t* groups[2] = {};  // null: nothing to decode
  std::int64_t tile = 0;               // from there on
  __m128i base[2][2];                  // of each panel, of each block
  std::int8_t* out[2] = {};

  /// i: 0..3.
  void block(int i) const noexcept {
    const int p = i / 2, half = i % 2;
    if (groups[p] == nullptr) return;
    decode_block(groups[p], 2 * tile + half, base[p][half], out[p] + half * (kTileBytes / 2));
  }
  void all() const noexcept {
    for (int i = 0; i < 4; ++i) block(i);
  }
};

/// Bases of up to 16 blocks from `groups` on, at the coarsest grain that fits all 16 rows of W.
static inline Grain find_bases(const std::uint8_t* groups, int num_blocks,
                               ChunkBases& out) noexcept {
  __m128i largest[kChunkBlocks], smallest[kChunkBlocks];
  for (int b = 0; b < kChunkBlocks; ++b) {
    largest[b] = _mm_setzero_si128();
    smallest[b] = _mm_set1_epi8(-1);
    if (b >= num_blocks) continue;
    const std::uint8_t* codes = block_codes(groups, b);
    __m512i any = _mm512_loadu_si512(codes);
    for (int d = 1; d < 4; ++d) any = _mm512_or_si512(any, _mm512_loadu_si512(codes + 64 * d));
    const __m128i scales = block_scales(groups, b);
    // Rows whose codes are all +-0 don't count, unless they are NaN.
    const __mmask16 counts = _mm512_test_epi32_mask(any, _mm512_set1_epi8(0x77)) |
                             _mm_cmpeq_epi8_mask(scales, _mm_set1_epi8(-1));
    largest[b] = _mm_maskz_mov_epi8(counts, scales);
    smallest[b] = _mm_mask_mov_epi8(smallest[b], counts, scales);
  }
  constexpr int kGrainBlocks[] = {16, 4, 2};
  for (int grain = kGrainChunk; grain < kGrainBlock; ++grain) {
    bool fits = true;
    for (int first = 0; first < kChunkBlocks; first += kGrainBlocks[grain]) {
      __m128i high = largest[first], low = smallest[first], base;
      for (int b = first + 1; b < first + kGrainBlocks[grain]; ++b) {
        high = _mm_max_epu8(high, largest[b]);
        low = _mm_min_epu8(low, smallest[b]);
      }
      fits &= common_bases(high, low, base);
      for (int b = first; b < first + kGrainBlocks[grain]; ++b)
        _mm_store_si128(reinterpret_cast<__m128i*>(out.base[b]), base);
    }
    if (fits) return static_cast<Grain>(grain);
  }
  const __m128i one = _mm_set1_epi8(static_cast<char>(formats::kE8m0One));
  for (int b = 0; b < kChunkBlocks; ++b) {
    const __mmask16 nothing = _mm_cmpgt_epu8_mask(smallest[b], largest[b]);
    _mm_store_si128(reinterpret_cast<__m128i*>(out.base[b]),
                    _mm_mask_mov_epi8(largest[b], nothing, one));
  }
  return kGrainBlock;
}

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
