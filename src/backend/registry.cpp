// The ordered list of all kernels: most specialised first, the reference last. Dispatch, tests,
// benches and the command line read this list and nothing else.
#include "backend/cpu/kernels.h"
#include "plan/kernel.h"

namespace mxgemm {
namespace {

constexpr const KernelDesc* kKernels[] = {
#if MXGEMM_WITH_CPU_X86
    &cpu::kAmxInt8,  &cpu::kAvx512Vnni, &cpu::kAvxVnni, &cpu::kAvx2, &cpu::kAvx2W4A16,
#endif
    &cpu::kPortable, &cpu::kReference,
};

}  // namespace

std::span<const KernelDesc* const> registry() noexcept {
  return kKernels;
}

}  // namespace mxgemm
