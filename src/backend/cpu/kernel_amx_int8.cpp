// cpu_amx_int8: 32 rows of A x 32 rows of W, int8 tiles with folded scales (amx_int8_core.h).
//
// Right to the block-exact bound for any input, but not the ordered sum: int32 sums span as many
// blocks as W's scales allow. A row's sums depend on no other row, so it promises `batch`.
#include <algorithm>
#include <optional>

#include "backend/cpu/amx_run.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/shifted_rows.h"
#include "layout/layouts.h"

namespace mxgemm::cpu {
namespace {

Status run_without_tiles(RunArgs args) noexcept {
  args.config = kAvx512Vnni.configs.front();
  return kAvx512Vnni.run(args);
}

Status run(const RunArgs& args) noexcept {
  const ShiftedRows a = shifted_rows(args.workspace, args.m(), args.w.k);
  shift_activations(args, a);
  if (is_faster_without_tiles(args, a)) return run_without_tiles(args);
  run_on_tiles<AmxTiles>(args, a);
  return {};
}

Status supports(const Problem&, const Device&) noexcept {
  if (Status s = supports_isa(Isa::amx, "AMX int8 with AVX-512 VBMI and BF16"); !s.is_ok())
    return s;
  if (request_tiles()) return {};
  return Status::error(StatusCode::unsupported, "the system refuses the AMX tile registers");
}

std::size_t workspace_bytes(const Problem& problem, const Config&) noexcept {
  // cpu_avx512vnni's need counts for every M, so that workspaces grow with it.
  Problem few = problem;
  few.shape.m = std::min(problem.shape.m, kFewRows - 1);
  return std::max(shifted_rows_bytes(problem.shape.m, problem.shape.k),
                  kAvx512Vnni.workspace_bytes(few, kAvx512Vnni.configs.front()));
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
