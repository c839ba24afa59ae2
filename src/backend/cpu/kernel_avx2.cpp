// cpu_avx2: span_ymm.h with VPMADDUBSW, which adds pairs of products in 16-bit lanes.
//
// Such a lane collects a quarter of a block: at most 8 * 2 * 24 * 12 = 4608, plus an offset of at
// most 12 * 32 * 12 = 4608, so nothing saturates.
#define MXGEMM_YMM_ISA "avx2,fma"

#include <immintrin.h>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/span_ymm.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN(MXGEMM_YMM_ISA)

struct DotsAvx2 {
  static __m256i start(std::int32_t offset) noexcept { return _mm256_set1_epi32(offset & 0xFFFF); }
  static __m256i add(__m256i dots, __m256i w, __m256i a) noexcept {
    return _mm256_add_epi16(dots, _mm256_maddubs_epi16(w, a));
  }
  static __m256i to_int(__m256i dots) noexcept {  // a lane's two halves
    return _mm256_madd_epi16(dots, _mm256_set1_epi16(1));
  }
};

MXGEMM_ISA_END
namespace {

Status run(const RunArgs& args) noexcept {
  return run_tiles(args, {quantize_row_avx2, unpack_blocks_avx2},
                   {sum_spans<UnpackedRows, span_ymm<DotsAvx2>>});
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 35, 70, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {{.block_m = 4, .block_n = kTileCols}};

}  // namespace

Status supports_avx2(const Problem&, const Device&) noexcept {
  return supports_isa(Isa::avx2, "AVX2, FMA or F16C");
}

constexpr KernelDesc kAvx2 = {
    .name = "cpu_avx2",
    .device = DeviceKind::cpu,
    .needs = "AVX2, FMA, F16C",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::device,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports_avx2,
    .estimate_us = estimate,
    .workspace_bytes = mxfp4_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
