// The loop that all fast CPU kernels share: A into the workspace, then tiles of C as tasks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/activations.h"
#include "backend/cpu/ordered_sum.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

inline constexpr int kTileCols = 16;  // a panel: 16 rows of W
inline constexpr int kMaxTileRows = 8;
inline constexpr int kMaxTileSums = kMaxTileRows * kTileCols;  // of a tile, whatever its form
using TileTree = SpanTree<kMaxTileSums>;

/// One tile of C over a range of spans of K.
struct Tile {
  std::int64_t first_row = 0;  // of A
  int rows = 0;
  std::int64_t first_col = 0;                 // row of W; a multiple of 16
  int panels = 1;                             // of 16 columns each; at most config.block_n / 16
  std::int64_t span_begin = 0, span_end = 0;  // within this W's K
  std::int64_t first_span = 0;                // of this W's K within the whole layer
};

/// Sums the tile's spans and pushes each onto `tree`, as the node first_span + span. A node's sums
/// are [panels][rows][16]; columns past N are ignored.
template <class Rows>
using SumTile = void (*)(const Tile& tile, const Rows& a, const WeightsView& w,
                         TileTree& tree) noexcept;

/// Writes a complete tile's sums to C: output.h.
using StoreTile = void (*)(const float* sums, const Tile& tile, const RunArgs& args) noexcept;
void store_tile(const float* sums, const Tile& tile, const RunArgs& args) noexcept;

/// How many of the 16 columns from `col` on C has.
inline int panel_cols(const RunArgs& args, std::int64_t col) noexcept {
  return static_cast<int>(std::min<std::int64_t>(kTileCols, args.w.n - col));
}

/// What a kernel brings.
template <class Rows>
struct TileKernel {
  SumTile<Rows> sum;
  StoreTile store = store_tile;
};

/// Quantizes A, then computes C in tiles of args.config.block_m rows and block_n columns.
Status run_tiles(const RunArgs& args, const RowTools& tools,
                 const TileKernel<UnpackedRows>& kernel) noexcept;
/// The same with A left in floating point.
Status run_tiles(const RunArgs& args, const TileKernel<FloatRows>& kernel) noexcept;

std::size_t mxfp4_workspace_bytes(const Problem& problem, const Config& config) noexcept;
std::size_t float_workspace_bytes(const Problem& problem, const Config& config) noexcept;

/// One span of one tile of a single panel, for kernels that need no more than that.
struct SpanTile {
  std::int64_t first_row = 0;  // of A
  int rows = 0;
  std::int64_t first_col = 0;  // row of W; a multiple of 16
  std::int64_t first_block = 0;
  int num_blocks = 0;
};
/// The sums of a tile's span from +0, to sums[rows][16].
template <class Rows>
using SumSpan = void (*)(const SpanTile& tile, const Rows& a, const WeightsView& w,
                         float* sums) noexcept;

/// A SumTile out of a SumSpan.
template <class Rows, SumSpan<Rows> kSumSpan>
void sum_spans(const Tile& tile, const Rows& a, const WeightsView& w, TileTree& tree) noexcept {
  SpanTile part{.first_row = tile.first_row, .rows = tile.rows, .first_col = tile.first_col};
  for (std::int64_t span = tile.span_begin; span < tile.span_end; ++span) {
    part.first_block = span * formats::kSpanBlocks;
    part.num_blocks = static_cast<int>(
        std::min<std::int64_t>(formats::kSpanBlocks, a.num_blocks - part.first_block));
    kSumSpan(part, a, w, tree.top());
    tree.push({tile.first_span + span, 1});
  }
}

}  // namespace mxgemm::cpu
