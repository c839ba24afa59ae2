// How the AMX kernel's work is cut and where it goes, over a type that has the tile instructions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/amx_int8_core.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/shifted_rows.h"
#include "layout/layouts.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

// Tiles of A that a task takes stay in the second-level cache while W passes by.
inline constexpr std::int64_t kMaxTaskABytes = std::int64_t{5} << 18;
// So that a late thread does not hold up the rest: two threads that share a core are often late.
inline constexpr std::int64_t kAmxTasksPerThread = 8;

// Decoded columns of W lie in the first-level cache: 32 KiB, or less where it is shared.
inline constexpr int kMaxBlockK = kMaxUnitTiles * kTileK;

/// C cut into rectangles: columns first, since every cut of rows decodes W once more.
struct AmxGrid {
  std::int64_t tile_step, pair_step, row_tasks, num_tasks;

  AmxGrid(std::int64_t row_tiles, std::int64_t pairs, std::int64_t k_tiles, int threads) noexcept {
    using layout::ceil_div, layout::round_up;
    const std::int64_t wanted = threads == 1 ? 1 : kAmxTasksPerThread * threads;
    pair_step = ceil_div(pairs, wanted);
    const std::int64_t col_tasks = ceil_div(pairs, pair_step);
    const std::int64_t fit =
        std::clamp<std::int64_t>(kMaxTaskABytes / (k_tiles * kTileBytes), 2, kMaxRowTiles);
    row_tasks = std::max(ceil_div(row_tiles, fit),
                         std::min(ceil_div(row_tiles, 2), ceil_div(threads, col_tasks)));
    tile_step = round_up(ceil_div(row_tiles, row_tasks), 2);
    row_tasks = ceil_div(row_tiles, tile_step);
    num_tasks = col_tasks * row_tasks;
  }
};

// With so few rows the products cost no more than reading W, in cpu_avx512vnni as well, so that
// many outliers are cheaper there. A row may then depend on the others: not under `batch`.
inline constexpr std::int64_t kFewRows = 8;
inline constexpr std::int64_t kManyOutliers = 64;  // one block in so many

inline bool is_faster_without_tiles(const RunArgs& args, const ShiftedRows& a) noexcept {
  const std::int64_t rows = args.m();
  if (args.reproducible != Reproducible::run || rows >= kFewRows) return false;
  return a.num_outliers[0] * kManyOutliers > rows * a.num_blocks;
}

template <class Tiles>
void run_on_tiles(const RunArgs& args, const ShiftedRows& a) noexcept {
  const std::int64_t row_tiles = layout::ceil_div(args.m(), kTileRows);
  const std::int64_t pairs = layout::ceil_div(args.w.n, kPairCols);
  const AmxGrid grid(row_tiles, pairs, a.k_tiles, num_threads(args.threads));
  parallel_for(args.threads, grid.num_tasks, [&](std::int64_t task) noexcept {
    const std::int64_t tile = task % grid.row_tasks * grid.tile_step;
    const std::int64_t pair = task / grid.row_tasks * grid.pair_step;
    AmxTask<Tiles>(args, a, tile, std::min(row_tiles, tile + grid.tile_step))
        .run(pair, std::min(pairs, pair + grid.pair_step));
  });
}

}  // namespace mxgemm::cpu
