#include "backend/cpu/gemm_driver.h"

#include <atomic>

#include "backend/cpu/arena.h"
#include "backend/cpu/k_split.h"
#include "backend/cpu/output.h"
#include "backend/cpu/parallel.h"
#include "formats/mxfp4.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
namespace {

constexpr std::int64_t kTasksPerThread = 4;  // so that a late thread does not hold up the rest

std::int64_t num_spans_of(std::int64_t k) noexcept {
  return layout::ceil_div(scales_per_row(k), formats::kSpanBlocks);
}

/// C cut into rectangles: whole panels of columns first, rows when panels are too few, and parts of
/// K when there is still less than a tile a thread.
struct TaskGrid {
  int tile_panels;
  std::int64_t row_step, panel_step, num_row_tasks, num_col_tasks;
  KSplit split;

  explicit TaskGrid(const RunArgs& args) noexcept : split(1, 1, 1) {
    const std::int64_t threads = args.num_threads, block_m = args.config.block_m;
    const std::int64_t panels = layout::ceil_div(args.w.n, kTileCols);
    const std::int64_t row_tiles = layout::ceil_div(args.m(), block_m);
    tile_panels = args.config.block_n / kTileCols;
    if (panels < tile_panels * threads) tile_panels = 1;
    const std::int64_t wanted = threads == 1 ? 1 : kTasksPerThread * threads;
    panel_step = std::max<std::int64_t>(1, panels / wanted / tile_panels) * tile_panels;
    num_col_tasks = layout::ceil_div(panels, panel_step);
    const std::int64_t row_tasks = std::min(row_tiles, layout::ceil_div(wanted, num_col_tasks));
    row_step = layout::ceil_div(row_tiles, row_tasks) * block_m;
    num_row_tasks = layout::ceil_div(args.m(), row_step);
    // A partial run is itself a part of K that somebody cut; it leaves several nodes.
    if (args.partial.sums == nullptr && panels * row_tiles < threads)
      split = KSplit(panels * row_tiles, num_spans_of(args.w.k), threads);
  }
  std::int64_t num_tiles() const noexcept { return num_row_tasks * num_col_tasks; }
};

/// Sums of the parts of K, and how many parts of each tile are there.
struct PartSums {
  float* sums = nullptr;              // [tile, part, kMaxTileSums]
  std::uint32_t* num_done = nullptr;  // [tile]

  PartSums(Arena& arena, std::int64_t slots) noexcept
      : sums(arena.take<float>(slots * kMaxTileSums)), num_done(arena.take<std::uint32_t>(slots)) {}
};

/// Room for parts of K, the same for every M so that workspaces grow with M.
std::int64_t part_slots(std::int64_t n, std::int64_t k, std::int64_t threads) noexcept {
  const bool may_split = layout::ceil_div(n, kTileCols) < threads && num_spans_of(k) > 1;
  return may_split ? KSplit::max_slots(threads) : 0;
}

/// Writes the nodes that a partial run leaves of one tile.
void store_nodes(const TileTree& tree, const RunArgs& args, const Tile& tile) noexcept {
  const std::int64_t m = args.m(), n = args.w.n;
  for (int node = 0; node < tree.depth(); ++node) {
    const float* sums = tree.node(node);
    for (int p = 0; p < tile.panels; ++p) {
      const std::int64_t col = tile.first_col + p * kTileCols;
      for (int r = 0; r < tile.rows; ++r, sums += kTileCols)
        std::copy_n(sums, panel_cols(args, col),
                    args.partial.sums + (node * m + tile.first_row + r) * n + col);
    }
  }
}

template <class Rows>
class Product {
 public:
  Product(const RunArgs& args, const Rows& a, const TileKernel<Rows>& kernel, Arena& arena) noexcept
      : args_(args),
        a_(a),
        kernel_(kernel),
        grid_(args),
        parts_(arena, part_slots(args.w.n, args.w.k, args.num_threads)) {}

  void run() noexcept {
    if (grid_.split.num_parts > 1) std::fill_n(parts_.num_done, grid_.num_tiles(), 0u);
    parallel_for(args_.threads, grid_.num_tiles() * grid_.split.num_parts,
                 [this](std::int64_t task) noexcept {
                   const std::int64_t parts = grid_.split.num_parts;
                   if (parts == 1)
                     run_rectangle(task);
                   else
                     run_part(task / parts, task % parts);
                 });
  }

 private:
  /// Tasks that follow each other share columns, so that a thread reads W on from where it was.
  void run_rectangle(std::int64_t task) noexcept {
    const std::int64_t row_begin = task % grid_.num_row_tasks * grid_.row_step;
    const std::int64_t row_end = std::min(args_.m(), row_begin + grid_.row_step);
    const std::int64_t panels = layout::ceil_div(args_.w.n, kTileCols);
    const std::int64_t panel_begin = task / grid_.num_row_tasks * grid_.panel_step;
    const std::int64_t panel_end = std::min(panels, panel_begin + grid_.panel_step);
    const bool partial = args_.partial.sums != nullptr;
    TileTree tree;
    Tile tile;
    tile.span_begin = partial ? args_.partial.span_begin : 0;
    tile.span_end = partial ? args_.partial.span_end : num_spans_of(args_.w.k);
    tile.first_span = args_.partial.first_span;
    for (std::int64_t panel = panel_begin; panel < panel_end; panel += grid_.tile_panels)
      for (std::int64_t row = row_begin; row < row_end; row += args_.config.block_m) {
        set_corner(tile, row, row_end, panel, panel_end);
        sum_tile(tile, tree);
        if (partial)
          store_nodes(tree, args_, tile);
        else
          kernel_.store(tree.fold(), tile, args_);
      }
  }

  /// One part of K of one tile. Whoever comes last adds the parts up, in the tree's order.
  void run_part(std::int64_t tile_index, std::int64_t part) noexcept {
    const KSplit& split = grid_.split;
    const std::int64_t panel = tile_index / grid_.num_row_tasks;
    const std::int64_t row = tile_index % grid_.num_row_tasks * grid_.row_step;
    TileTree tree;
    Tile tile;
    set_corner(tile, row, args_.m(), panel, panel + 1);
    tile.span_begin = part * split.part_spans;
    tile.span_end = std::min(num_spans_of(args_.w.k), tile.span_begin + split.part_spans);
    sum_tile(tile, tree);
    float* sums = parts_.sums + tile_index * split.num_parts * kMaxTileSums;
    std::copy_n(tree.fold(), tile.rows * kTileCols, sums + part * kMaxTileSums);

    const std::atomic_ref<std::uint32_t> num_done(parts_.num_done[tile_index]);
    if (num_done.fetch_add(1, std::memory_order_acq_rel) + 1 != split.num_parts) return;
    tree.clear(tile.rows * kTileCols);
    for (std::int64_t p = 0; p < split.num_parts; ++p) {
      std::copy_n(sums + p * kMaxTileSums, tile.rows * kTileCols, tree.top());
      // The last part may be shorter: then it has no sibling, nor would its nodes have had one.
      const bool whole = (p + 1) * split.part_spans <= num_spans_of(args_.w.k);
      tree.push({p * split.part_spans, whole ? split.part_spans : 0});
    }
    kernel_.store(tree.fold(), tile, args_);
  }

  void set_corner(Tile& tile, std::int64_t row, std::int64_t row_end, std::int64_t panel,
                  std::int64_t panel_end) const noexcept {
    tile.first_row = row;
    tile.rows = static_cast<int>(std::min<std::int64_t>(args_.config.block_m, row_end - row));
    tile.first_col = panel * kTileCols;
    tile.panels = static_cast<int>(std::min<std::int64_t>(grid_.tile_panels, panel_end - panel));
  }

  void sum_tile(const Tile& tile, TileTree& tree) const noexcept {
    tree.clear(tile.rows * tile.panels * kTileCols);
    kernel_.sum(tile, a_, args_.w, tree);
  }

  const RunArgs& args_;
  const Rows& a_;
  const TileKernel<Rows>& kernel_;
  TaskGrid grid_;
  PartSums parts_;
};

std::size_t parts_bytes(const Problem& problem) noexcept {
  Arena arena(nullptr);
  PartSums(arena, part_slots(problem.shape.n, problem.shape.k, problem.num_threads));
  return arena.used();
}

}  // namespace

void store_tile(const float* sums, const Tile& tile, const RunArgs& args) noexcept {
  for (int p = 0; p < tile.panels; ++p) {
    const std::int64_t col = tile.first_col + p * kTileCols;
    for (int r = 0; r < tile.rows; ++r, sums += kTileCols)
      store_row(sums, panel_cols(args, col), args.c, tile.first_row + r, col, args.epilogue);
  }
}

Status run_tiles(const RunArgs& args, const RowTools& tools,
                 const TileKernel<UnpackedRows>& kernel) noexcept {
  const UnpackedRows a = unpacked_rows(args.workspace, args.m(), args.w.k);
  unpack_activations(args, tools, a);
  Arena rest(args.workspace + unpacked_rows_bytes(args.m(), args.w.k));
  Product(args, a, kernel, rest).run();
  return {};
}

Status run_tiles(const RunArgs& args, const TileKernel<FloatRows>& kernel) noexcept {
  const FloatRows a = float_rows(args.workspace, args.m(), args.w.k);
  convert_activations(args, a);
  Arena rest(args.workspace + float_rows_bytes(args.m(), args.w.k));
  Product(args, a, kernel, rest).run();
  return {};
}

std::size_t mxfp4_workspace_bytes(const Problem& problem, const Config&) noexcept {
  return unpacked_rows_bytes(problem.shape.m, problem.shape.k) + parts_bytes(problem);
}

std::size_t float_workspace_bytes(const Problem& problem, const Config&) noexcept {
  return float_rows_bytes(problem.shape.m, problem.shape.k) + parts_bytes(problem);
}

}  // namespace mxgemm::cpu
