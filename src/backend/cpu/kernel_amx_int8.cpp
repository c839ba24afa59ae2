// cpu_amx_int8: 32 rows of A x 32 rows of W, int8 tiles with folded scales (amx_int8_core.h).
//
// Right to the block-exact bound for any input, but not the ordered sum: int32 sums span as many
// blocks as the scales allow, and that depends on what the neighbouring rows and columns hold. So
// it promises `run` only.
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

/// Pairs of panels a task takes, so that each thread gets about four tasks.
std::int64_t pairs_per_task(std::int64_t pairs, int threads) noexcept {
  return pairs / (4 * threads) > 1 ? pairs / (4 * threads) : 1;
}

Status run(const RunArgs& args) noexcept {
  const ShiftedRows a = shifted_rows(args.workspace, args.m(), args.w.k);
  shift_activations(args, a);
  const std::int64_t row_tiles = layout::ceil_div(args.m(), kTileRows);
  const std::int64_t pairs = layout::ceil_div(args.w.n, kPairCols);
  const std::int64_t step = pairs_per_task(pairs, num_threads(args.threads));
  const std::int64_t col_tasks = layout::ceil_div(pairs, step);
  // Rows are cut only where they must be: every cut decodes W once more.
  const std::int64_t row_tasks = layout::ceil_div(row_tiles, kMaxRowTiles);
  parallel_for(args.threads, col_tasks * row_tasks, [&](std::int64_t task) noexcept {
    const std::int64_t first = task / row_tasks * step;
    const std::int64_t tile_begin = task % row_tasks * kMaxRowTiles;
    const std::int64_t tile_end = std::min(row_tiles, tile_begin + kMaxRowTiles);
    AmxTask<AmxTiles> work(args, a);
    for (std::int64_t p = first; p < std::min(pairs, first + step); ++p)
      work.run(tile_begin, tile_end, p * kPairCols);
    AmxTask<AmxTiles>::release();
  });
  return {};
}

Status supports(const Problem&, const Device&) noexcept {
  if (Status s = supports_isa(Isa::amx, "AMX int8 with AVX-512 VBMI"); !s.is_ok()) return s;
  if (request_tiles()) return {};
  return Status::error(StatusCode::unsupported, "the system refuses the AMX tile registers");
}

std::size_t workspace_bytes(const Problem& problem, const Config&) noexcept {
  return shifted_rows_bytes(problem.shape.m, problem.shape.k);
}

// Rounded guesses of one core's rates, which only rank the kernels; tiles have 16 rows.
double estimate(const Problem& problem, const Config&) noexcept {
  Problem padded = problem;
  padded.shape.m = layout::round_up(problem.shape.m, kTileRows);
  return estimate_us(padded, 46, 1200, 2);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {{.block_m = 32, .block_n = kPairCols, .block_k = 512}};

}  // namespace

constexpr KernelDesc kAmxInt8 = {
    .name = "cpu_amx_int8",
    .device = DeviceKind::cpu,
    .needs = "AMX int8, AVX-512 VBMI",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::run,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports,
    .estimate_us = estimate,
    .workspace_bytes = workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
