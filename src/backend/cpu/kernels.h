// The CPU kernels' entries for the registry; each is defined in its own file.
#pragma once

#include "plan/kernel.h"

namespace mxgemm::cpu {

extern const KernelDesc kReference;
extern const KernelDesc kPortable;
extern const KernelDesc kAmxInt8;
extern const KernelDesc kAvx512Vnni;
extern const KernelDesc kAvx2;
extern const KernelDesc kAvx2W4A16;

/// ok when MXGEMM_CPU_ISA and the machine allow AVX2 and FMA.
Status supports_avx2(const Problem&, const Device&) noexcept;

inline Status supports_everything(const Problem&, const Device&) noexcept { return {}; }

}  // namespace mxgemm::cpu
