// x86-64: which levels this machine has, and which quantizer goes with each.
#include "backend/cpu/isa.h"

namespace mxgemm::cpu {

Isa detected_isa() noexcept {
  // libgcc asks CPUID and XGETBV, so "supported" includes the operating system.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return avx2 ? Isa::avx2 : Isa::baseline;
}

QuantizeRow quantize_row_for(Isa isa) noexcept {
  return isa >= Isa::avx2 ? quantize_row_avx2 : quantize_row_baseline;
}

}  // namespace mxgemm::cpu
