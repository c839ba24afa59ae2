#include "backend/cpu/isa.h"

#include <algorithm>
#include <cstdlib>

namespace mxgemm::cpu {

std::string_view to_string(Isa isa) noexcept {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512vnni:
      return "avx512vnni";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

Result<Isa> usable_isa() noexcept {
  const char* cap = std::getenv("MXGEMM_CPU_ISA");
  if (cap == nullptr || *cap == '\0') return detected_isa();
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::amx}) {
    if (to_string(isa) != cap) continue;
    const Isa lower = std::min(isa, detected_isa());
    return lower == Isa::avxvnni && !has_avx_vnni() ? Isa::avx2 : lower;
  }
  return Status::error(
      StatusCode::invalid_argument,
      "MXGEMM_CPU_ISA is '%.40s', must be 'baseline', 'avx2', 'avxvnni', 'avx512vnni' or 'amx'",
      cap);
}

Status supports_isa(Isa isa, const char* what) noexcept {
  const Result<Isa> usable = usable_isa();
  if (!usable.is_ok()) return usable.status();
  if (*usable >= isa) return {};
  return detected_isa() >= isa
             ? Status::error(StatusCode::unsupported, "MXGEMM_CPU_ISA rules out %s", what)
             : Status::error(StatusCode::unsupported, "this CPU lacks %s", what);
}

}  // namespace mxgemm::cpu
