// The portable quantizer: the definition of quantize/quantize_block.h, block by block.
#include <algorithm>
#include <cstring>

#include "backend/cpu/isa.h"
#include "formats/mxfp4.h"
#include "quantize/quantize_block.h"

namespace mxgemm::cpu {

void load_floats(const void* x, DType dtype, std::int64_t first, std::int64_t count,
                 float* out) noexcept {
  const auto* bytes = static_cast<const std::uint8_t*>(x) + first * size_of(dtype);
  if (dtype == DType::f32) {
    std::memcpy(out, bytes, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits;  // memcpy: callers' data has any alignment
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    out[i] = dtype == DType::bf16 ? formats::bf16_to_float(bits) : formats::f16_to_float(bits);
  }
}

void quantize_row_baseline(const void* x, DType dtype, std::int64_t k, std::uint32_t rule_addend,
                           NonFinite policy, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  float block[formats::kBlock];
  for (std::int64_t b = 0; b < scales_per_row(k); ++b) {
    const auto count =
        static_cast<int>(std::min<std::int64_t>(formats::kBlock, k - b * formats::kBlock));
    load_floats(x, dtype, b * formats::kBlock, count, block);
    scales[b] = quantize_block(block, count, rule_addend, policy, codes + b * 16);
  }
}

}  // namespace mxgemm::cpu
