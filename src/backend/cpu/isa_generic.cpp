// Any other architecture: no kernels of its own yet, everything runs on the portable ones.
#include "backend/cpu/isa.h"

namespace mxgemm::cpu {

bool has_avx_vnni() noexcept {
  return false;
}

Isa detected_isa() noexcept {
  return Isa::baseline;
}

void relax() noexcept {}

QuantizeRow quantize_row_for(Isa) noexcept {
  return quantize_row_baseline;
}

}  // namespace mxgemm::cpu
