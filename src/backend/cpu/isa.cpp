#include "backend/cpu/isa.h"

#include <algorithm>
#include <cstdlib>

namespace mxgemm::cpu {

std::string_view to_string(Isa isa) noexcept {
  switch (isa) {
    case Isa::baseline: return "baseline";
    case Isa::avx2: return "avx2";
  }
  return "?";
}

Result<Isa> usable_isa() noexcept {
  const char* cap = std::getenv("MXGEMM_CPU_ISA");
  if (cap == nullptr || *cap == '\0') return detected_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2})
    if (to_string(isa) == cap) return std::min(isa, detected_isa());
  return Status::error(StatusCode::invalid_argument,
                       "MXGEMM_CPU_ISA is '%.40s', must be 'baseline' or 'avx2'", cap);
}

}  // namespace mxgemm::cpu
