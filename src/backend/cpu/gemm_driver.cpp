#include "backend/cpu/gemm_driver.h"

#include <algorithm>

#include "backend/cpu/ordered_sum.h"
#include "backend/cpu/output.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
namespace {

using Tree = SpanTree<kMaxTileRows * kTileCols>;

constexpr std::int64_t kTasksPerThread = 4;  // so that a late thread does not hold up the rest

/// C cut into rectangles: whole panels of columns first, rows only when panels are too few.
struct TaskGrid {
  std::int64_t row_step, col_step, num_row_tasks, num_tasks;

  TaskGrid(const RunArgs& args, int block_m) noexcept {
    const std::int64_t panels = layout::ceil_div(args.w.n, kTileCols);
    const std::int64_t wanted = kTasksPerThread * num_threads(args.threads);
    const std::int64_t panels_per_task = std::max<std::int64_t>(1, panels / wanted);
    const std::int64_t col_tasks = layout::ceil_div(panels, panels_per_task);
    const std::int64_t row_tiles = layout::ceil_div(args.m(), block_m);
    const std::int64_t row_tasks = std::min(row_tiles, layout::ceil_div(wanted, col_tasks));
    row_step = layout::ceil_div(row_tiles, row_tasks) * block_m;
    col_step = panels_per_task * kTileCols;
    num_row_tasks = layout::ceil_div(args.m(), row_step);
    num_tasks = num_row_tasks * col_tasks;
  }
};

/// Writes the nodes that a partial run leaves of one tile.
void store_nodes(const Tree& tree, const RunArgs& args, const SpanTile& tile) noexcept {
  const std::int64_t m = args.m(), n = args.w.n;
  const auto cols = static_cast<int>(std::min<std::int64_t>(kTileCols, n - tile.first_col));
  for (int node = 0; node < tree.depth(); ++node)
    for (int r = 0; r < tile.rows; ++r)
      std::copy_n(tree.node(node) + r * kTileCols, cols,
                  args.partial.sums + (node * m + tile.first_row + r) * n + tile.first_col);
}

template <class Rows>
void run_tile(const RunArgs& args, const Rows& a, SpanKernel<Rows> kernel, SpanTile tile,
              Tree& tree) noexcept {
  const bool partial = args.partial.sums != nullptr;
  const std::int64_t num_spans = layout::ceil_div(a.num_blocks, formats::kSpanBlocks);
  const std::int64_t begin = partial ? args.partial.span_begin : 0;
  const std::int64_t end = partial ? args.partial.span_end : num_spans;
  tree.clear(tile.rows * kTileCols);
  for (std::int64_t span = begin; span < end; ++span) {
    tile.first_block = span * formats::kSpanBlocks;
    tile.num_blocks = static_cast<int>(
        std::min<std::int64_t>(formats::kSpanBlocks, a.num_blocks - tile.first_block));
    kernel(tile, a, args.w, tree.top());
    tree.push({args.partial.first_span + span, 1});
  }
  if (partial) return store_nodes(tree, args, tile);
  const float* sums = tree.fold();
  const auto cols = static_cast<int>(std::min<std::int64_t>(kTileCols, args.w.n - tile.first_col));
  for (int r = 0; r < tile.rows; ++r)
    store_row(sums + r * kTileCols, cols, args.c, tile.first_row + r, tile.first_col,
              args.epilogue);
}

template <class Rows>
void run_grid(const RunArgs& args, const Rows& a, SpanKernel<Rows> kernel) noexcept {
  const int block_m = args.config.block_m;
  const TaskGrid grid(args, block_m);
  parallel_for(args.threads, grid.num_tasks, [&](std::int64_t task) noexcept {
    const std::int64_t row_begin = task % grid.num_row_tasks * grid.row_step;
    const std::int64_t row_end = std::min(args.m(), row_begin + grid.row_step);
    const std::int64_t col_begin = task / grid.num_row_tasks * grid.col_step;
    const std::int64_t col_end = std::min(args.w.n, col_begin + grid.col_step);
    Tree tree;
    for (std::int64_t col = col_begin; col < col_end; col += kTileCols)
      for (std::int64_t row = row_begin; row < row_end; row += block_m) {
        SpanTile tile;
        tile.first_row = row;
        tile.rows = static_cast<int>(std::min<std::int64_t>(block_m, row_end - row));
        tile.first_col = col;
        run_tile(args, a, kernel, tile, tree);
      }
  });
}

}  // namespace

Status run_tiles(const RunArgs& args, const RowTools& tools,
                 SpanKernel<UnpackedRows> kernel) noexcept {
  const UnpackedRows a = unpacked_rows(args.workspace, args.m(), args.w.k);
  unpack_activations(args, tools, a);
  run_grid(args, a, kernel);
  return {};
}

Status run_tiles(const RunArgs& args, SpanKernel<FloatRows> kernel) noexcept {
  const FloatRows a = float_rows(args.workspace, args.m(), args.w.k);
  convert_activations(args, a);
  run_grid(args, a, kernel);
  return {};
}

std::size_t mxfp4_workspace_bytes(const Problem& problem, const Config&) noexcept {
  return unpacked_rows_bytes(problem.shape.m, problem.shape.k);
}

std::size_t float_workspace_bytes(const Problem& problem, const Config&) noexcept {
  return float_rows_bytes(problem.shape.m, problem.shape.k);
}

}  // namespace mxgemm::cpu
