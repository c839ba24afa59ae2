// Any other architecture: no kernels of its own yet, everything runs on the portable ones.
#include "backend/cpu/isa.h"

#include <sys/utsname.h>

namespace mxgemm::cpu {

bool has_avx_vnni() noexcept {
  return false;
}

bool prefers_far_prefetch() noexcept {
  return false;
}

Isa detected_isa() noexcept {
  return Isa::baseline;
}

void relax() noexcept {}

std::string model_name() {
  utsname system;
  return uname(&system) == 0 ? system.machine : "unknown";
}

QuantizeRow quantize_row_for(Isa) noexcept {
  return quantize_row_baseline;
}

}  // namespace mxgemm::cpu
