// Our codecs against the host functions of CUDA's cuda_fp4.h and cuda_fp8.h (no GPU is needed).
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include <cmath>

#include "quantize/quantize_block.h"
#include "testing.h"

namespace mxgemm {
namespace {

TEST(CudaConversions, ElementCodesOfEveryFiniteBf16UnderEveryUsefulScale) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float x = formats::bf16_to_float(static_cast<std::uint16_t>(h));
    if (!std::isfinite(x)) continue;
    for (int b = 0; b < 254; ++b) {
      const float q = x * element_multiplier(static_cast<std::uint8_t>(b));
      if (std::fabs(q) > 64.0f) continue;  // a rule never leaves more than 8 (12 with a margin)
      ASSERT_EQ(e2m1_code(q), __nv_cvt_float_to_fp4(q, __NV_E2M1, cudaRoundNearest))
          << "bf16 bits " << h << " scale " << b;
      if (std::fabs(q) < 0x1p-6f) break;  // larger scales only give more zeros
    }
  }
}

TEST(CudaConversions, RceilIsTheRoundUpCastOfAmaxOverSix) {
  for (std::uint32_t h = 1; h < 0x7F80; ++h) {
    const float amax = formats::bf16_to_float(static_cast<std::uint16_t>(h));
    if (amax < 6 * 0x1p-126f) continue;  // CUDA's cast flushes what is below 2^-126 to byte 0
    const std::uint8_t ours =
        scale_byte(std::bit_cast<std::uint32_t>(amax), scale_rule_addend(ScaleRule::rceil));
    // amax / 6 in double: the cast sees which side of a power of two it is on.
    ASSERT_EQ(ours, __nv_cvt_double_to_e8m0(double{amax} / 6, __NV_SATFINITE, cudaRoundPosInf))
        << "bf16 bits " << h;
  }
}

TEST(CudaConversions, E8m0Decoding) {
  for (int b = 0; b < 255; ++b) {
    const __nv_bfloat16_raw raw = __nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(b));
    EXPECT_EQ(formats::bf16_to_float(raw.x), formats::e8m0_to_float(static_cast<std::uint8_t>(b)));
  }
  EXPECT_TRUE(std::isnan(formats::bf16_to_float(__nv_cvt_e8m0_to_bf16raw(255).x)));
}

}  // namespace
}  // namespace mxgemm
