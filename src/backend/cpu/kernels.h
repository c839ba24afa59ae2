// The CPU kernels' entries for the registry; each is defined in its own file.
#pragma once

#include "plan/kernel.h"

namespace mxgemm::cpu {

extern const KernelDesc kReference;
extern const KernelDesc kPortable;
extern const KernelDesc kAmxInt8;
extern const KernelDesc kAvx512Vnni;
extern const KernelDesc kAvxVnni;
extern const KernelDesc kAvx2;
extern const KernelDesc kAvx2W4A16;

/// ok when MXGEMM_CPU_ISA and the machine allow AVX2 and FMA.
Status supports_avx2(const Problem&, const Device&) noexcept;

/// The larger of streaming W at weights_per_ns and multiplying at products_per_ns, plus a start.
inline double estimate_us(const Problem& problem, double weights_per_ns, double products_per_ns,
                          double start_us) noexcept {
  const Shape& s = problem.shape;
  const double weights = static_cast<double>(s.n) * static_cast<double>(s.k);
  const double stream = weights / weights_per_ns,
               multiply = weights * static_cast<double>(s.m) / products_per_ns;
  return start_us + 1e-3 * (stream > multiply ? stream : multiply);
}

inline Status supports_everything(const Problem&, const Device&) noexcept {
  return {};
}

}  // namespace mxgemm::cpu
