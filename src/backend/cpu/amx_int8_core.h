// The AMX kernel's loops, over a type that has the tile instructions (AmxTiles, or an emulation in
// tests). A in tiles (ShiftedRows) x W in cpu_panel16 -> sums in float32.
//
// Both sides are int8 with differences of block scales folded in as shifts of 0..3, so one int32
// accumulation spans many blocks: the whole of K where a tile pair's rows and columns are uniform,
// else chunks of 512 elements, else single blocks. Each step down costs more flushes; every one is
// exact up to the float32 addition of what is flushed.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/block_scale_avx512.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/output.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {

inline constexpr int kPairCols = 32;  // two panels of W
inline constexpr int kChunkKTiles = kChunkBlocks / 2;
inline constexpr int kChunkGroups = kChunkBlocks / 4;
inline constexpr int kMaxRowTiles = 16;             // rows of A that share one decoding of W: 256
inline constexpr std::int64_t kMaxInt32K = 131072;  // |sum| <= K * 96 * 96 < 2^31

/// Sums of 16 x 16 results.
struct alignas(64) IntTile {
  std::int32_t values[256];
};
struct alignas(64) FloatTile {
  float values[256];
};

/// Working memory of one task, on its stack (81 KiB).
struct AmxScratch {
  alignas(64) std::int8_t w[2][kChunkKTiles * kTileBytes];  // a chunk of two panels, decoded
  alignas(64) std::uint8_t w_scales[2][kChunkBlocks][16];   // base of each block and column
  IntTile ints[kMaxRowTiles][2];
  FloatTile floats[kMaxRowTiles][2];
};

static_assert(sizeof(AmxScratch) < 96 * 1024);

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,amx-tile,amx-int8")

// Not std::min: a library template instantiated in this region could be compiled for it everywhere.
static inline std::int64_t min_of(std::int64_t a, std::int64_t b) noexcept {
  return a < b ? a : b;
}

/// A block of a panel: 256 code bytes to 512 int8, 4 elements of K x 16 rows of W a 64-byte line.
/// shifts: 0..3 for each row of W.
static inline void decode_shifted_block(const std::uint8_t* codes, __m128i shifts,
                                        std::int8_t* out) noexcept {
  const __m512i table = _mm512_load_si512(kShiftedValues);
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i spread = _mm512_broadcast_i32x4(  // byte 0 of each lane to all four
      _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
  const __m512i high_bits =
      _mm512_shuffle_epi8(_mm512_cvtepu8_epi32(_mm_slli_epi16(shifts, 4)), spread);
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

static inline __m128i load_scales(const std::uint8_t* group, int block) noexcept {
  return _mm_loadu_si128(
      reinterpret_cast<const __m128i*>(group + layout::kPanelScalesOffset + 16 * block));
}

/// Shifts of a block against each row's base; pads, whose codes are 0, may get any.
static inline __m128i shifts_from(__m128i scales, __m128i base) noexcept {
  return _mm_min_epu8(_mm_subs_epu8(scales, base), _mm_set1_epi8(kMaxShift));
}

/// Bases of a panel's 16 rows from the range of their scales; false where one base is not enough.
static inline bool panel_bases(__m128i largest, __m128i smallest, __m128i& base) noexcept {
  base = _mm_subs_epu8(largest, _mm_set1_epi8(kMaxShift));
  const __m128i spread = _mm_sub_epi8(largest, smallest);
  const __mmask16 wide = _mm_cmpgt_epu8_mask(spread, _mm_set1_epi8(kMaxShift)) |
                         _mm_cmpeq_epi8_mask(largest, _mm_set1_epi8(-1));
  return wide == 0;
}

/// A panel of W at a chunk of K.
struct PanelChunk {
  const std::uint8_t* groups = nullptr;  // null: past N
  int num_blocks = 0;
};

/// Decodes a chunk with one base a row of W where that works (else shift 0), to `out`; bases of
/// every block to `scales`. Returns whether it worked. The last half tile is zero-filled.
static inline bool decode_chunk(const PanelChunk& chunk, const __m128i* uniform_base,
                                std::int8_t* out, std::uint8_t (*scales)[16]) noexcept {
  const int blocks = chunk.num_blocks;
  if (chunk.groups == nullptr) {
    std::memset(out, 0, static_cast<std::size_t>((blocks + 1) / 2) * kTileBytes);
    std::memset(scales, formats::kE8m0One, static_cast<std::size_t>(blocks) * 16);
    return true;
  }
  const auto group = [&](int b) noexcept {
    return chunk.groups + b / 4 * layout::kPanelGroupBytes;
  };
  __m128i base;
  bool folded = true;
  if (uniform_base != nullptr) {
    base = *uniform_base;
  } else {
    __m128i largest = load_scales(group(0), 0), smallest = largest;
    for (int b = 1; b < blocks; ++b) {
      const __m128i s = load_scales(group(b), b % 4);
      largest = _mm_max_epu8(largest, s);
      smallest = _mm_min_epu8(smallest, s);
    }
    folded = panel_bases(largest, smallest, base);
  }
  for (int b = 0; b < blocks; ++b) {
    const __m128i s = load_scales(group(b), b % 4);
    const __m128i own = folded ? base : s;
    decode_shifted_block(group(b) + b % 4 * layout::kPanelBlockBytes, shifts_from(s, own),
                         out + b * (kTileBytes / 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(scales[b]), own);
  }
  if (blocks % 2 != 0) std::memset(out + blocks * (kTileBytes / 2), 0, kTileBytes / 2);
  return folded;
}

/// floats += ints / 4 * 2^(row base + column base - 254), for 16 rows.
static inline void add_tile(const IntTile& ints, const std::uint8_t* a_scales,
                            std::int64_t a_stride, const std::uint8_t* w_scales,
                            FloatTile& floats) noexcept {
  const __m512i w_bytes = load_scale_bytes(w_scales);
  for (int r = 0; r < kTileRows; ++r) {
    float* sums = floats.values + 16 * r;
    const __m512 dots = _mm512_cvtepi32_ps(_mm512_load_si512(ints.values + 16 * r));
    _mm512_store_ps(
        sums, add_scaled_general(_mm512_load_ps(sums), dots, a_scales[r * a_stride], w_bytes));
  }
}

template <class Tiles>
class AmxTask {
 public:
  AmxTask(const RunArgs& args, const ShiftedRows& a) noexcept : args_(args), a_(a) {}

  /// C of row tiles [tile_begin, tile_end) (at most kMaxRowTiles) x columns [col, col + 32).
  void run(std::int64_t tile_begin, std::int64_t tile_end, std::int64_t col) noexcept {
    tile_begin_ = tile_begin;
    num_tiles_ = static_cast<int>(tile_end - tile_begin);
    col_ = col;
    bool uniform = a_.num_blocks * formats::kBlock <= kMaxInt32K;
    for (int p = 0; p < 2; ++p) {
      panel_[p] = col + 16 * p < args_.w.n
                      ? args_.w.codes + layout::panel_offset(col + 16 * p, args_.w.k)
                      : nullptr;
      if (panel_[p] == nullptr) {
        base_[p] = _mm_set1_epi8(formats::kE8m0One);
        continue;
      }
      const auto* header = reinterpret_cast<const __m128i*>(panel_[p]);
      uniform &= panel_bases(_mm_loadu_si128(header), _mm_loadu_si128(header + 1), base_[p]);
    }
    for (std::int64_t r = tile_begin * kTileRows; r < tile_end * kTileRows; ++r)
      uniform &= a_.uniform[r] != 0;
    configure_whole();
    if (uniform)
      run_uniform();
    else
      run_chunks();
    store();
  }

  static void release() noexcept { Tiles::release(); }

 private:
  // Tiles 0..3: sums of (row tile 0 | 1) x (panel 0 | 1); 4, 5: A; 6, 7: W.
  static void configure(int a_bytes, int w_rows) noexcept {
    TileConfig config;
    for (int t = 0; t < 8; ++t) {
      config.rows[t] = static_cast<std::uint8_t>(t < 6 ? kTileRows : w_rows);
      config.row_bytes[t] = static_cast<std::uint16_t>(t == 4 || t == 5 ? a_bytes : 64);
    }
    Tiles::configure(config);
  }
  static void configure_whole() noexcept { configure(64, 16); }
  static void configure_block() noexcept { configure(32, 8); }  // one block of K

  PanelChunk chunk_of(int p, std::int64_t chunk) const noexcept {
    const std::int64_t first = chunk * kChunkBlocks;
    return {panel_[p] == nullptr
                ? nullptr
                : panel_[p] + layout::kPanelHeaderBytes + first / 4 * layout::kPanelGroupBytes,
            static_cast<int>(min_of(kChunkBlocks, a_.num_blocks - first))};
  }

  /// A pair of row tiles; the second is the first again where there is only one.
  struct TilePair {
    int first, second;
  };
  TilePair pair(int i) const noexcept {
    return {i, static_cast<int>(min_of(i + 1, num_tiles_ - 1))};
  }

  /// Tiles 0..3 += k_tiles tiles of A and W from k_tile on.
  void multiply(TilePair rows, std::int64_t k_tile, int k_tiles) noexcept {
    const std::int8_t* a0 = a_.tile(tile_begin_ + rows.first, k_tile);
    const std::int8_t* a1 = a_.tile(tile_begin_ + rows.second, k_tile);
    const std::int8_t *w0 = scratch_.w[0], *w1 = scratch_.w[1];
    for (int k = 0; k < k_tiles; ++k) {
      Tiles::template load<4>(a0 + k * kTileBytes);
      Tiles::template load<6>(w0 + k * kTileBytes);
      Tiles::template dot<0, 4, 6>();
      Tiles::template load<7>(w1 + k * kTileBytes);
      Tiles::template dot<1, 4, 7>();
      if (rows.second == rows.first) continue;
      Tiles::template load<5>(a1 + k * kTileBytes);
      Tiles::template dot<2, 5, 6>();
      Tiles::template dot<3, 5, 7>();
    }
  }
  static void zero_tiles() noexcept {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
  }
  void load_tiles(TilePair rows) noexcept {
    Tiles::template load<0>(scratch_.ints[rows.first][0].values);
    Tiles::template load<1>(scratch_.ints[rows.first][1].values);
    Tiles::template load<2>(scratch_.ints[rows.second][0].values);
    Tiles::template load<3>(scratch_.ints[rows.second][1].values);
  }
  void store_tiles(TilePair rows) noexcept {
    if (rows.second != rows.first) {
      Tiles::template store<2>(scratch_.ints[rows.second][0].values);
      Tiles::template store<3>(scratch_.ints[rows.second][1].values);
    }
    Tiles::template store<0>(scratch_.ints[rows.first][0].values);
    Tiles::template store<1>(scratch_.ints[rows.first][1].values);
  }

  /// Adds ints, which cover block b (and those that share its bases), to floats.
  void flush(int tile, std::int64_t b, int chunk_block) noexcept {
    const std::int64_t row = (tile_begin_ + tile) * kTileRows;
    for (int p = 0; p < 2; ++p)
      add_tile(scratch_.ints[tile][p], a_.scales + row * a_.scales_stride() + b, a_.scales_stride(),
               scratch_.w_scales[p][chunk_block], scratch_.floats[tile][p]);
  }
  void clear_floats() noexcept {
    std::memset(scratch_.floats, 0,
                static_cast<std::size_t>(num_tiles_) * sizeof scratch_.floats[0]);
  }

  /// One base a row and a column: int32 over the whole of K, rounded once.
  void run_uniform() noexcept {
    for (std::int64_t chunk = 0; chunk < a_.num_chunks; ++chunk) {
      for (int p = 0; p < 2; ++p)
        decode_chunk(chunk_of(p, chunk), &base_[p], scratch_.w[p], scratch_.w_scales[p]);
      const int k_tiles = (chunk_of(0, chunk).num_blocks + 1) / 2;
      for (int i = 0; i < num_tiles_; i += 2) {
        chunk == 0 ? zero_tiles() : load_tiles(pair(i));
        multiply(pair(i), chunk * kChunkKTiles, k_tiles);
        store_tiles(pair(i));
      }
    }
    clear_floats();
    for (int tile = 0; tile < num_tiles_; ++tile) flush(tile, 0, 0);
  }

  /// One base a row and a column in each chunk, or single blocks where that fails.
  void run_chunks() noexcept {
    clear_floats();
    for (std::int64_t chunk = 0; chunk < a_.num_chunks; ++chunk) {
      bool w_folded = true;
      for (int p = 0; p < 2; ++p)
        w_folded &= decode_chunk(chunk_of(p, chunk), nullptr, scratch_.w[p], scratch_.w_scales[p]);
      const int blocks = chunk_of(0, chunk).num_blocks;
      for (int i = 0; i < num_tiles_; i += 2) {
        if (!w_folded || !rows_folded(pair(i), chunk)) {
          run_blocks(pair(i), chunk, blocks);
          continue;
        }
        zero_tiles();
        multiply(pair(i), chunk * kChunkKTiles, (blocks + 1) / 2);
        store_tiles(pair(i));
        for (int tile = i; tile <= pair(i).second; ++tile) flush(tile, chunk * kChunkBlocks, 0);
      }
    }
  }

  bool rows_folded(TilePair rows, std::int64_t chunk) const noexcept {
    bool folded = true;
    for (int tile = rows.first; tile <= rows.second; ++tile)
      for (int r = 0; r < kTileRows; ++r)
        folded &= a_.grain[a_.chunk_at(tile_begin_ + tile, chunk) + r] == kGrainChunk;
    return folded;
  }

  void run_blocks(TilePair rows, std::int64_t chunk, int blocks) noexcept {
    configure_block();
    for (int i = 0; i < blocks; ++i) {
      const std::int64_t b = chunk * kChunkBlocks + i;
      zero_tiles();
      Tiles::template load<4>(a_.tile(tile_begin_ + rows.first, b / 2) + b % 2 * formats::kBlock);
      Tiles::template load<5>(a_.tile(tile_begin_ + rows.second, b / 2) + b % 2 * formats::kBlock);
      Tiles::template load<6>(scratch_.w[0] + i * (kTileBytes / 2));
      Tiles::template load<7>(scratch_.w[1] + i * (kTileBytes / 2));
      Tiles::template dot<0, 4, 6>();
      Tiles::template dot<1, 4, 7>();
      Tiles::template dot<2, 5, 6>();
      Tiles::template dot<3, 5, 7>();
      store_tiles(rows);
      for (int tile = rows.first; tile <= rows.second; ++tile) flush(tile, b, i);
    }
    configure_whole();
  }

  void store() noexcept {
    for (int tile = 0; tile < num_tiles_; ++tile)
      for (int r = 0; r < kTileRows; ++r) {
        const std::int64_t row = (tile_begin_ + tile) * kTileRows + r;
        if (row >= args_.m()) break;
        for (int p = 0; p < 2 && col_ + 16 * p < args_.w.n; ++p)
          store_row(scratch_.floats[tile][p].values + 16 * r,
                    static_cast<int>(min_of(16, args_.w.n - col_ - 16 * p)), args_.c, row,
                    col_ + 16 * p, args_.epilogue);
      }
  }

  const RunArgs& args_;
  const ShiftedRows& a_;
  std::int64_t tile_begin_ = 0, col_ = 0;
  int num_tiles_ = 0;
  const std::uint8_t* panel_[2] = {};
  __m128i base_[2];
  AmxScratch scratch_;
};

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
