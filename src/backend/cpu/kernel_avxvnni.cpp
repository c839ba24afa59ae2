// cpu_avxvnni: span_ymm.h with the VEX form of VPDPBUSD, for processors without AVX-512.
#define MXGEMM_YMM_ISA "avx2,fma,avxvnni"

#include <immintrin.h>

#include "backend/cpu/gemm_driver.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/span_ymm.h"

namespace mxgemm::cpu {
MXGEMM_ISA_BEGIN(MXGEMM_YMM_ISA)

struct DotsAvxVnni {
  static __m256i start(std::int32_t offset) noexcept { return _mm256_set1_epi32(offset); }
  static __m256i add(__m256i dots, __m256i w, __m256i a) noexcept {
    return _mm256_dpbusd_avx_epi32(dots, w, a);
  }
  static __m256i to_int(__m256i dots) noexcept { return dots; }
};

MXGEMM_ISA_END
namespace {

Status run(const RunArgs& args) noexcept {
  return run_tiles(args, {quantize_row_avx2, unpack_blocks_avx2},
                   {sum_spans<UnpackedRows, span_ymm<DotsAvxVnni>>});
}

// Rounded guesses of one core's rates; they only rank the kernels.
double estimate(const Problem& problem, const Config&) noexcept {
  return estimate_us(problem, 40, 100, 1);
}

constexpr Layout kLayouts[] = {Layout::cpu_panel16};
constexpr Config kConfigs[] = {{.block_m = 4, .block_n = kTileCols}};

// The level alone does not say so: processors with AVX-512 VNNI may lack the VEX form.
Status supports(const Problem&, const Device&) noexcept {
  if (!has_avx_vnni()) return Status::error(StatusCode::unsupported, "this CPU lacks AVX-VNNI");
  return supports_isa(Isa::avxvnni, "AVX-VNNI");
}

}  // namespace

constexpr KernelDesc kAvxVnni = {
    .name = "cpu_avxvnni",
    .device = DeviceKind::cpu,
    .needs = "AVX2, FMA, F16C, AVX-VNNI",
    .layouts = kLayouts,
    .configs = kConfigs,
    .mxfp4 = Reproducible::device,
    .none = std::nullopt,
    .error_class = ErrorClass::block_exact,
    .supports = supports,
    .estimate_us = estimate,
    .workspace_bytes = mxfp4_workspace_bytes,
    .run = run,
};

}  // namespace mxgemm::cpu
