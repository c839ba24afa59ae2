// The AMX kernel's loops, over a type that has the tile instructions (AmxTiles, or an emulation in
// tests): A in tiles (ShiftedRows) x W in cpu_panel16 -> C.
//
// Both sides are int8 with differences of block scales folded in as shifts of 0..3, so one int32
// accumulation spans many blocks. Rows of A have one base each; the blocks that it does not hold
// are multiplied apart (amx_outliers.h). W's sums span the whole of K where each of the 32 columns
// has one base as well ("whole"), else what the scales of each chunk of 512 elements allow: the
// chunk, 128 elements, 64, or single blocks. A flush rounds once, or twice where sums over the
// whole of K meet outliers.
//
// W is decoded ahead of its use, tile by tile between the tile products, which run on a unit of
// their own; so do the flushes (amx_flush.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/amx_decode.h"
#include "backend/cpu/amx_flush.h"
#include "backend/cpu/amx_outliers.h"
#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/region_tools.h"
#include "backend/cpu/shifted_rows.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {

inline constexpr int kMaxRowTiles = 16;   // rows of A that share one decoding of W: 256
inline constexpr int kMaxUnitTiles = 16;  // of K: 1024 elements of a pair, 32 KiB decoded
inline constexpr int kChunkTiles = kChunkBlocks / 2;
inline constexpr std::int64_t kMaxInt32K = 131072;  // |sum| <= K * 96 * 96 < 2^31

/// Tiles of K that a unit of the `whole` loop covers: at most `most`, as even as possible, whole
/// groups.
constexpr int whole_unit_tiles(std::int64_t k_tiles, int most) noexcept {
  const std::int64_t units = layout::ceil_div(k_tiles, most);
  return static_cast<int>(layout::round_up(layout::ceil_div(k_tiles, units), 2));
}

/// Working memory of one task, on its stack (82 KiB).
struct AmxScratch {
  alignas(64) std::int8_t w[2][kMaxUnitTiles * kTileBytes];  // decoded; or a ring of tiles
  TileQuad sums[kMaxRowTiles / 2];
  TileQuad dots[2];
  TileQuad outliers[2];    // like dots, float32
  ChunkBases bases[2][2];  // of this unit and the next one, for each panel
  RowScales row_scales[kMaxRowTiles / 2];
};
static_assert(sizeof(AmxScratch) < 96 * 1024);

MXGEMM_ISA_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512bf16,amx-tile,amx-int8")

/// Rows to fetch, 128 bytes each, some at a step.
struct RowPrefetch {
  const char* row = nullptr;
  std::int64_t stride = 0;
  int left = 0;

  void step(int count) noexcept {
    const int end = left > count ? left - count : 0;
    for (; left > end; --left, row += stride) {
      prefetch_l2(row);
      prefetch_l2(row + 64);
    }
  }
};

template <class Tiles>
class AmxTask {
 public:
  /// C of row tiles [tile_begin, tile_end), at most kMaxRowTiles; tile_begin is even.
  AmxTask(const RunArgs& args, const ShiftedRows& a, std::int64_t tile_begin,
          std::int64_t tile_end) noexcept
      : args_(args),
        a_(a),
        tile_begin_(tile_begin),
        num_tiles_(static_cast<int>(tile_end - tile_begin)),
        sweeps_((num_tiles_ + 1) / 2),
        num_rows_(static_cast<int>(
            min_of(args.m() - tile_begin * kTileRows, std::int64_t{kTileRows} * num_tiles_))),
        // With few sweeps the next unit's decoding weighs more than this one's spilled sums.
        whole_tiles_(whole_unit_tiles(
            a.k_tiles, static_cast<int>(min_of(args.config.block_k / kTileK,
                                               sweeps_ > 2 ? kMaxUnitTiles : kMaxUnitTiles / 2)))),
        flush_(args) {
    for (int s = 0; s < sweeps_; ++s) {
      const std::uint8_t* base = a.row_base + (tile_begin + 2 * s) * kTileRows;
      set_row_scales(load_bytes16(base),
                     load_bytes16(2 * s + 1 < num_tiles_ ? base + kTileRows : base),
                     scratch_.row_scales[s]);
    }
    configure(64);
  }
  ~AmxTask() { Tiles::release(); }
  AmxTask(const AmxTask&) = delete;
  AmxTask& operator=(const AmxTask&) = delete;

  /// Columns [32 * begin, 32 * end).
  void run(std::int64_t begin, std::int64_t end) noexcept {
    while (begin < end) {
      const PanelPair first = panel_pair(args_.w, begin * kPairCols);
      whole_ = is_whole(first);
      if (whole_ && num_tiles_ == 1)
        begin = run_rings<1>(begin, end, first);
      else if (whole_ && num_tiles_ == 2)
        begin = run_rings<2>(begin, end, first);
      else
        begin = run_units(begin, end, first);
    }
    flush_.finish();
  }

 private:
  bool is_whole(const PanelPair& pair) const noexcept {
    return pair.uniform && a_.num_blocks * formats::kBlock <= kMaxInt32K;
  }

  // Tiles 0..3: sums of (row tile 0 | 1) x (panel 0 | 1); 4, 5: A; 6, 7: W. k_bytes: elements of K
  // in a tile, 64 or a single block.
  void configure(int k_bytes) const noexcept {
    const auto rows0 = static_cast<std::uint8_t>(min_of(num_rows_, kTileRows));
    const auto rows1 = static_cast<std::uint8_t>(
        num_rows_ > kTileRows ? min_of(num_rows_ - kTileRows, kTileRows) : 1);
    TileConfig config;
    for (int t = 0; t < 8; ++t) {
      const bool second = t == 2 || t == 3 || t == 5;
      config.rows[t] = t >= 6 ? static_cast<std::uint8_t>(k_bytes / 4) : second ? rows1 : rows0;
      config.row_bytes[t] = static_cast<std::uint16_t>(t == 4 || t == 5 ? k_bytes : 64);
    }
    Tiles::configure(config);
  }

  static void zero_tiles() noexcept {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
  }
  static void store_tiles(TileQuad& to, bool two_rows) noexcept {
    Tiles::template store<0>(to.rows[0]);
    Tiles::template store<1>(to.rows[0] + 16);
    if (!two_rows) return;
    Tiles::template store<2>(to.rows[16]);
    Tiles::template store<3>(to.rows[16] + 16);
  }

  /// Sums += A's tiles at a0 and (unless null) a1 x W's at w0 and w1.
  template <bool kStream>
  static void multiply(const std::int8_t* a0, const std::int8_t* a1, const std::int8_t* w0,
                       const std::int8_t* w1) noexcept {
    kStream ? Tiles::template stream<4>(a0) : Tiles::template load<4>(a0);
    Tiles::template load<6>(w0);
    Tiles::template dot<0, 4, 6>();
    Tiles::template load<7>(w1);
    Tiles::template dot<1, 4, 7>();
    if (a1 == nullptr) return;
    kStream ? Tiles::template stream<5>(a1) : Tiles::template load<5>(a1);
    Tiles::template dot<2, 5, 6>();
    Tiles::template dot<3, 5, 7>();
  }

  /// The same with other work between the products, which run on a unit of their own. All loads
  /// come first: a product's wait for its tiles would hold up the work behind it.
  void multiply_and_decode(const std::int8_t* a0, const std::int8_t* a1, const std::int8_t* w0,
                           const std::int8_t* w1, const TileDecoder& decoder,
                           int flush_rows) noexcept {
    Tiles::template load<4>(a0);
    if (a1 != nullptr) Tiles::template load<5>(a1);
    Tiles::template load<6>(w0);
    Tiles::template load<7>(w1);
    Tiles::template dot<0, 4, 6>();
    decoder.block(0);
    flush_.work(flush_rows);
    Tiles::template dot<1, 4, 7>();
    decoder.block(1);
    if (a1 != nullptr) Tiles::template dot<2, 5, 6>();
    decoder.block(2);
    if (a1 != nullptr) Tiles::template dot<3, 5, 7>();
    decoder.block(3);
  }

  // --- Up to 32 rows, whole: sums stay in the tiles for the whole of K. ---

  static constexpr int kRingTiles = 4, kTilesAhead = 2;

  /// The tile that is decoded next, kTilesAhead before its use; runs on into the next pairs as long
  /// as they are whole.
  struct Ahead {
    PanelPair pair;
    std::int64_t pair_index, tile = 0, slot = 0;
    std::int64_t stop;  // the first pair that is not to be decoded
  };
  TileDecoder next_decoder(Ahead& ahead) noexcept {
    TileDecoder d;
    if (ahead.pair_index == ahead.stop) return d;
    for (int p = 0; p < 2; ++p) {
      d.groups[p] = ahead.pair.groups[p];
      d.base[p][0] = d.base[p][1] = ahead.pair.base[p];
      d.out[p] = scratch_.w[p] + ahead.slot * kTileBytes;
    }
    d.tile = ahead.tile;
    ahead.slot = (ahead.slot + 1) % kRingTiles;
    if (++ahead.tile < a_.k_tiles) return d;
    ahead.tile = 0;
    if (++ahead.pair_index == ahead.stop) return d;
    ahead.pair = panel_pair(args_.w, ahead.pair_index * kPairCols);
    if (!is_whole(ahead.pair)) ahead.stop = ahead.pair_index;
    return d;
  }

  /// Pairs [begin, end) as long as they are whole; returns where it stopped.
  template <int kRowTiles>
  std::int64_t run_rings(std::int64_t begin, std::int64_t end, const PanelPair& first) noexcept {
    const std::int8_t* a0 = a_.tile(tile_begin_, 0);
    const std::int8_t* a1 = kRowTiles == 2 ? a_.tile(tile_begin_ + 1, 0) : nullptr;
    const auto flush_rows = static_cast<int>(layout::ceil_div(2 * kTileRows, a_.k_tiles));
    Ahead ahead = {.pair = first, .pair_index = begin, .stop = end};
    for (int i = 0; i < kTilesAhead; ++i) next_decoder(ahead).all();
    std::int64_t slot = 0;
    for (; begin < ahead.stop; ++begin) {
      const PanelPair pair =
          begin == ahead.pair_index ? ahead.pair : panel_pair(args_.w, begin * kPairCols);
      zero_tiles();
      for (std::int64_t t = 0; t < a_.k_tiles; ++t) {
        multiply_and_decode(a0 + t * kTileBytes, kRowTiles == 2 ? a1 + t * kTileBytes : nullptr,
                            scratch_.w[0] + slot * kTileBytes, scratch_.w[1] + slot * kTileBytes,
                            next_decoder(ahead), flush_rows);
        slot = (slot + 1) % kRingTiles;
      }
      flush_.finish();
      TileQuad& dots = next_dots();
      store_tiles(dots, kRowTiles == 2);
      begin_flush(dots, 0, pair, begin, {true, true}, pair.base[0], pair.base[1]);
    }
    return begin;
  }

  // --- Everything else: units of (pair, part of K), each swept by all pairs of row tiles. ---

  struct Unit {
    std::int64_t pair_index, first_tile;  // of K
    int num_tiles;
    PanelPair pair;
    const ChunkBases* bases;  // of each panel; unused in `whole`
    Grain grain;
  };

  int unit_tiles() const noexcept { return whole_ ? whole_tiles_ : kChunkTiles; }

  Unit make_unit(std::int64_t pair_index, const PanelPair& pair, std::int64_t first_tile) noexcept {
    Unit u = {
        pair_index, first_tile, static_cast<int>(min_of(unit_tiles(), a_.k_tiles - first_tile)),
        pair,       nullptr,    kGrainChunk};
    if (whole_) return u;
    bases_slot_ ^= 1;
    u.bases = scratch_.bases[bases_slot_];
    const auto blocks = static_cast<int>(min_of(kChunkBlocks, a_.num_blocks - 2 * first_tile));
    for (int p = 0; p < 2; ++p) {
      const Grain grain = find_bases(groups_of(u, p), blocks, scratch_.bases[bases_slot_][p]);
      if (grain > u.grain) u.grain = grain;
    }
    return u;
  }

  /// The unit after `u`; false where the pairs end or change between `whole` and not.
  bool next_unit(const Unit& u, std::int64_t end, Unit& next) noexcept {
    if (u.first_tile + u.num_tiles < a_.k_tiles) {
      next = make_unit(u.pair_index, u.pair, u.first_tile + u.num_tiles);
      return true;
    }
    if (u.pair_index + 1 == end) return false;
    const PanelPair pair = panel_pair(args_.w, (u.pair_index + 1) * kPairCols);
    if (is_whole(pair) != whole_) return false;
    next = make_unit(u.pair_index + 1, pair, 0);
    return true;
  }

  static const std::uint8_t* groups_of(const Unit& u, int p) noexcept {
    return u.pair.groups[p] + u.first_tile / 2 * layout::kPanelGroupBytes;
  }

  /// Tile `t` of a unit goes where the unit before had its tile t.
  TileDecoder unit_decoder(const Unit& u, int t) noexcept {
    TileDecoder d;
    d.tile = t;
    for (int p = 0; p < 2; ++p) {
      d.groups[p] = groups_of(u, p);
      for (int half = 0; half < 2; ++half)
        d.base[p][half] = whole_ ? u.pair.base[p] : base_of(u, p, 2 * t + half);
      d.out[p] = scratch_.w[p] + t * kTileBytes;
    }
    return d;
  }

  std::int64_t run_units(std::int64_t begin, std::int64_t end, const PanelPair& first) noexcept {
    Unit unit = make_unit(begin, first, 0), next = unit;
    for (int t = 0; t < unit.num_tiles; ++t) unit_decoder(unit, t).all();
    for (;;) {
      const bool more = next_unit(unit, end, next);
      for (int s = 0; s < sweeps_; ++s) {
        // In place, as the last sweep leaves the tiles: a second buffer would not fit the first
        // cache.
        const Unit* decode = more && s + 1 == sweeps_ ? &next : nullptr;
        if (unit.grain == kGrainChunk)
          sweep(s, unit, decode);
        else if (unit.grain == kGrainBlock)
          sweep_blocks(s, unit, decode);
        else
          sweep_parts(s, unit, unit.grain == kGrainQuad ? 2 : 1, decode);
        if (decode == nullptr) continue;
        for (int t = unit.num_tiles; t < next.num_tiles; ++t) unit_decoder(next, t).all();
      }
      if (!more) return unit.pair_index + 1;
      unit = next;
    }
  }

  struct RowPair {
    const std::int8_t *a0, *a1;  // a1 null: there is only one row tile
  };
  RowPair row_pair(int s, std::int64_t k_tile) const noexcept {
    const std::int64_t tile = tile_begin_ + 2 * s;
    return {a_.tile(tile, k_tile), 2 * s + 1 < num_tiles_ ? a_.tile(tile + 1, k_tile) : nullptr};
  }

  /// The whole unit in one go, with everything else between the products.
  void sweep(int s, const Unit& u, const Unit* decode) noexcept {
    const RowPair rows = row_pair(s, u.first_tile);
    const int flush_rows = (32 + u.num_tiles - 1) / u.num_tiles;
    RowPrefetch c = u.first_tile == 0 ? prefetch_of_c(s, u.pair_index) : RowPrefetch{};
    const std::int8_t *w0 = scratch_.w[0], *w1 = scratch_.w[1];
    zero_tiles();
    for (int t = 0; t < u.num_tiles; ++t) {
      const std::int64_t at = t * kTileBytes;
      multiply<true>(rows.a0 + at, rows.a1 == nullptr ? nullptr : rows.a1 + at, w0 + at, w1 + at);
      c.step(flush_rows);
      flush_.work(flush_rows);
      if (decode != nullptr && t < decode->num_tiles) unit_decoder(*decode, t).all();
    }
    flush_.finish();
    const Ends ends = {u.first_tile == 0, u.first_tile + u.num_tiles == a_.k_tiles};
    if (whole_ && ends.first && !ends.last)
      return store_tiles(scratch_.sums[s], rows.a1 != nullptr);
    TileQuad& dots = next_dots();
    store_tiles(dots, rows.a1 != nullptr);
    begin_flush(dots, s, u.pair, u.pair_index, ends, whole_ ? u.pair.base[0] : base_of(u, 0, 0),
                whole_ ? u.pair.base[1] : base_of(u, 1, 0));
  }

  /// The unit in parts of `part_tiles` tiles of K, each with bases of its own.
  void sweep_parts(int s, const Unit& u, int part_tiles, const Unit* decode) noexcept {
    const RowPair rows = row_pair(s, u.first_tile);
    for (int first = 0; first < u.num_tiles; first += part_tiles) {
      const int end = static_cast<int>(min_of(first + part_tiles, u.num_tiles));
      zero_tiles();
      for (int t = first; t < end; ++t) {
        const std::int64_t at = t * kTileBytes;
        multiply<false>(rows.a0 + at, rows.a1 == nullptr ? nullptr : rows.a1 + at,
                        scratch_.w[0] + at, scratch_.w[1] + at);
      }
      flush_part(s, u, 2 * first, end == u.num_tiles);
      for (int t = first; t < end; ++t)
        if (decode != nullptr && t < decode->num_tiles) unit_decoder(*decode, t).all();
    }
  }

  void sweep_blocks(int s, const Unit& u, const Unit* decode) noexcept {
    const RowPair rows = row_pair(s, u.first_tile);
    configure(formats::kBlock);
    for (int t = 0; t < u.num_tiles; ++t) {
      for (int half = 0; half < 2; ++half) {
        const std::int64_t at = t * kTileBytes + half * formats::kBlock;
        const std::int64_t w_at = t * kTileBytes + half * (kTileBytes / 2);
        zero_tiles();
        multiply<false>(rows.a0 + at, rows.a1 == nullptr ? nullptr : rows.a1 + at,
                        scratch_.w[0] + w_at, scratch_.w[1] + w_at);
        flush_part(s, u, 2 * t + half, t + 1 == u.num_tiles && half == 1);
      }
      if (decode != nullptr && t < decode->num_tiles) unit_decoder(*decode, t).all();
    }
    configure(64);
  }

  /// Flushes what starts at block `block` of the unit.
  void flush_part(int s, const Unit& u, int block, bool end_of_unit) noexcept {
    TileQuad& dots = next_dots();
    store_tiles(dots, 2 * s + 1 < num_tiles_);
    flush_.finish();  // of the part before, while this one's tiles are being stored
    begin_flush(
        dots, s, u.pair, u.pair_index,
        {u.first_tile == 0 && block == 0, u.first_tile + u.num_tiles == a_.k_tiles && end_of_unit},
        base_of(u, 0, block), base_of(u, 1, block));
  }

  static __m128i base_of(const Unit& u, int p, int block) noexcept {
    return load_bytes16(u.bases[p].base[block]);
  }

  /// What is being flushed keeps its place until the flush after the next begins.
  TileQuad& next_dots() noexcept { return scratch_.dots[dots_slot_ ^= 1]; }

  struct Ends {
    bool first, last;
  };
  void begin_flush(const TileQuad& dots, int s, const PanelPair& pair, std::int64_t pair_index,
                   Ends ends, __m128i w0, __m128i w1) noexcept {
    const int first_row = 2 * s * kTileRows;
    const TileQuad* outliers = nullptr;  // they join the first float32 sums
    if (whole_ ? ends.last : ends.first) {
      TileQuad& sums = scratch_.outliers[dots_slot_];
      if (add_outliers(a_, tile_begin_ + 2 * s, 2 * s + 1 < num_tiles_, pair, sums))
        outliers = &sums;
    }
    flush_.begin({&dots, &scratch_.sums[s], outliers, whole_, ends.first, ends.last,
                  tile_begin_ * kTileRows + first_row, pair_index * kPairCols,
                  static_cast<int>(min_of(num_rows_ - first_row, 2 * kTileRows))},
                 scratch_.row_scales[s], w0, w1);
  }

  /// Rows of C that a sweep will write. Lines come in pairs, which a core had better fetch
  /// together: 128 bytes at a time.
  RowPrefetch prefetch_of_c(int s, std::int64_t pair_index) const noexcept {
    const auto size = static_cast<std::int64_t>(size_of(args_.c.dtype));
    if (kPairCols * size < 128 && pair_index % 2 != 0) return {};
    const int first = 2 * s * kTileRows;
    const std::int64_t stride = args_.c.row_stride * size;
    return {static_cast<const char*>(args_.c.data) + (tile_begin_ * kTileRows + first) * stride +
                pair_index * kPairCols * size,
            stride, static_cast<int>(min_of(num_rows_ - first, 2 * kTileRows))};
  }

  const RunArgs& args_;
  const ShiftedRows& a_;
  const std::int64_t tile_begin_;
  const int num_tiles_, sweeps_, num_rows_, whole_tiles_;
  bool whole_ = false;
  int dots_slot_ = 0, bases_slot_ = 0;
  Flush flush_;
  AmxScratch scratch_;
};

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
