// x86-64: which levels this machine has, and which quantizer goes with each.
#include "backend/cpu/isa.h"

namespace mxgemm::cpu {

Isa detected_isa() noexcept {
  // libgcc asks CPUID and XGETBV, so "supported" includes the operating system.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::avx512vnni : Isa::avx2;
}

QuantizeRow quantize_row_for(Isa isa) noexcept {
  if (isa >= Isa::avx512vnni) return quantize_row_avx512;
  return isa >= Isa::avx2 ? quantize_row_avx2 : quantize_row_baseline;
}

}  // namespace mxgemm::cpu
