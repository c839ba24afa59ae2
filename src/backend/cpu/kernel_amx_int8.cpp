// cpu_amx_int8: 32 rows of A x 32 rows of W, int8 tiles with folded scales (amx_int8_core.h).
//
// Right to the block-exact bound for any input, but not the ordered sum: int32 sums span as many
// blocks as W's scales allow. A row's sums depend on no other row, so it promises `batch`.
#include <algorithm>
#include <optional>

#include "backend/cpu/amx_int8_core.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/shifted_rows.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
namespace {

// Tiles of A that a task takes stay in the second-level cache while W passes by.
constexpr std::int64_t kMaxTaskABytes = std::int64_t{5} << 18;
// So that a late thread does not hold up the rest: two threads that share a core are often late.
constexpr std::int64_t kTasksPerThread = 8;

// Decoded columns of W lie in the first-level cache: 32 KiB, or less where it is shared.
constexpr int kMaxBlockK = kMaxUnitTiles * kTileK;

/// C cut into rectangles: columns first, since every cut of rows decodes W once more.
struct TaskGrid {
  std::int64_t tile_step, pair_step, row_tasks, num_tasks;

  TaskGrid(std::int64_t row_tiles, std::int64_t pairs, std::int64_t k_tiles, int threads) noexcept {
    using layout::ceil_div, layout::round_up;
    const std::int64_t wanted = threads == 1 ? 1 : kTasksPerThread * threads;
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
constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kManyOutliers = 64;  // one block in so many

bool has_many_outliers(const ShiftedRows& a, std::int64_t rows) noexcept {
  std::int64_t outliers = 0;
  for (std::int64_t t = 0; t < layout::ceil_div(rows, kTileRows); ++t)
    outliers += a.num_outliers[t];
  return outliers * kManyOutliers > rows * a.num_blocks;
}

Status run_without_tiles(RunArgs args) noexcept {
  args.config = kAvx512Vnni.configs.front();
  return kAvx512Vnni.run(args);
}

Status run(const RunArgs& args) noexcept {
  const ShiftedRows a = shifted_rows(args.workspace, args.m(), args.w.k);
  shift_activations(args, a);
  if (args.reproducible == Reproducible::run && args.m() < kFewRows &&
      has_many_outliers(a, args.m()))
    return run_without_tiles(args);
  const std::int64_t row_tiles = layout::ceil_div(args.m(), kTileRows);
  const std::int64_t pairs = layout::ceil_div(args.w.n, kPairCols);
  const TaskGrid grid(row_tiles, pairs, a.k_tiles, num_threads(args.threads));
  parallel_for(args.threads, grid.num_tasks, [&](std::int64_t task) noexcept {
    const std::int64_t tile = task % grid.row_tasks * grid.tile_step;
    const std::int64_t pair = task / grid.row_tasks * grid.pair_step;
    AmxTask<AmxTiles>(args, a, tile, std::min(row_tiles, tile + grid.tile_step))
        .run(pair, std::min(pairs, pair + grid.pair_step));
  });
  return {};
}

Status supports(const Problem&, const Device&) noexcept {
  if (Status s = supports_isa(Isa::amx, "AMX int8 with AVX-512 VBMI and BF16"); !s.is_ok())
    return s;
  if (request_tiles()) return {};
  return Status::error(StatusCode::unsupported, "the system refuses the AMX tile registers");
}

std::size_t workspace_bytes(const Problem& problem, const Config&) noexcept {
  const std::size_t bytes = shifted_rows_bytes(problem.shape.m, problem.shape.k);
  if (problem.shape.m >= kFewRows) return bytes;
  return std::max(bytes, kAvx512Vnni.workspace_bytes(problem, kAvx512Vnni.configs.front()));
}

// Rounded guesses of one core's rates, which only rank the kernels: W is read and decoded once, and
// tiles have 16 rows.
double estimate(const Problem& problem, const Config& config) noexcept {
  constexpr double kDecodedPerUs = 62e3, kProductsPerUs = 1.5e6;
  const auto weights = static_cast<double>(problem.shape.n) * static_cast<double>(problem.shape.k);
  const auto rows = static_cast<double>(layout::round_up(problem.shape.m, kTileRows));
  const double products = rows * weights / kProductsPerUs;
  return 1 + weights / kDecodedPerUs + products * (config.block_k == kMaxBlockK ? 1 : 1.05);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {
    {.block_m = 32, .block_n = kPairCols, .block_k = kMaxBlockK},
    {.block_m = 32, .block_n = kPairCols, .block_k = 512},
    {.block_m = 32, .block_n = kPairCols, .block_k = 256},
};

}  // namespace

constexpr KernelDesc kAmxInt8 = {
    .name = "cpu_amx_int8",
    .device = DeviceKind::cpu,
    .needs = "AMX int8, AVX-512 VBMI and BF16",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::batch,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports,
    .estimate_us = estimate,
    .workspace_bytes = workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
