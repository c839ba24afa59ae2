// cpu_avxvnni's loops with VPDPBUSD in its AVX-512 form, so that they are tested on machines that
// lack the VEX form: bit for bit the ordered sum.
#define MXGEMM_YMM_ISA "avx2,fma,avx512vl,avx512vnni"

#include <immintrin.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "backend/cpu/span_ymm.h"
#include "gemm_testing.h"

namespace mxgemm {
namespace {

using namespace testing;

MXGEMM_ISA_BEGIN(MXGEMM_YMM_ISA)

struct DotsEmulated {
  static __m256i start(std::int32_t offset) noexcept { return _mm256_set1_epi32(offset); }
  static __m256i add(__m256i dots, __m256i w, __m256i a) noexcept {
    return _mm256_dpbusd_epi32(dots, w, a);
  }
  static __m256i to_int(__m256i dots) noexcept { return dots; }
};

MXGEMM_ISA_END

std::vector<float> run(const HostMxfp4& a, const HostMxfp4& w) {
  const Weights weights = make_weights(w, Layout::cpu_panel16);
  RunArgs args;
  const StridedMxfp4 rows(a, a.rows);
  args.a_mxfp4 = rows.view;
  args.w = {
      .layout = Layout::cpu_panel16, .n = w.rows, .k = w.cols, .codes = weights.codes().data()};
  GuardedOutput c(a.rows, w.rows);
  args.c = c.view();
  args.config = {.block_m = 4, .block_n = cpu::kTileCols};
  const Problem problem{.shape = {a.rows, w.rows, a.cols}};
  KernelWorkspace workspace(cpu::mxfp4_workspace_bytes(problem, args.config));
  args.workspace = workspace.data();
  EXPECT_OK(cpu::run_tiles(args, {cpu::quantize_row_avx2, cpu::unpack_blocks_avx2},
                           {cpu::sum_spans<cpu::UnpackedRows, cpu::span_ymm<DotsEmulated>>}));
  workspace.expect_guard();
  return c.take();
}

TEST(AvxVnniEmulated, EqualsTheReferenceBitForBit) {
  if (cpu::detected_isa() < cpu::Isa::avx512vnni) GTEST_SKIP() << "this CPU lacks AVX-512 VNNI";
  const std::vector<int> usual = {110, 120, 121, 124, 127, 130},
                         edges = {0, 1, 71, 72, 126, 127, 182, 183, 253, 254, 255};
  for (const std::int64_t k : {1, 31, 33, 256, 288, 784, 2881})
    for (const auto& [a_scales, w_scales] : {std::pair{usual, usual}, std::pair{edges, usual},
                                             std::pair{usual, edges}, std::pair{edges, edges}})
      for (const std::int64_t m : {1, 2, 3, 4, 9}) {
        const auto seed = static_cast<unsigned>(k + m);
        const HostMxfp4 a = random_mxfp4(m, k, seed, a_scales),
                        w = random_mxfp4(17, k, seed + 1, w_scales);
        ASSERT_EQ(bits_of(run(a, w)), bits_of(reference(a, w))) << m << " " << k;
      }
}

}  // namespace
}  // namespace mxgemm
