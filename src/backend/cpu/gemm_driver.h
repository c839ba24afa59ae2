// The loop that all fast CPU kernels share: A into the workspace, then tiles of C over spans of K.
#pragma once

#include <cstdint>

#include "backend/cpu/activations.h"
#include "plan/kernel.h"

namespace mxgemm::cpu {

inline constexpr int kTileCols = 16;
inline constexpr int kMaxTileRows = 8;

/// One span of one tile: up to 8 blocks of K, up to kMaxTileRows rows of A, 16 rows of W.
struct SpanTile {
  std::int64_t first_row = 0;  // of A
  int rows = 0;
  std::int64_t first_col = 0;  // row of W; a multiple of 16
  std::int64_t first_block = 0;
  int num_blocks = 0;
};

/// A kernel: the sums of a tile's span from +0, to sums[rows][16]. Columns past N are ignored.
template <class Rows>
using SpanKernel = void (*)(const SpanTile& tile, const Rows& a, const WeightsView& w,
                            float* sums) noexcept;

/// Quantizes A, then runs `kernel` on tiles of args.config.block_m rows.
Status run_tiles(const RunArgs& args, const RowTools& tools,
                 SpanKernel<UnpackedRows> kernel) noexcept;
/// The same with A left in floating point.
Status run_tiles(const RunArgs& args, SpanKernel<FloatRows> kernel) noexcept;

std::size_t mxfp4_workspace_bytes(const Problem& problem, const Config& config) noexcept;
std::size_t float_workspace_bytes(const Problem& problem, const Config& config) noexcept;

}  // namespace mxgemm::cpu
