// What is built in and what this machine can run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/device.h"
#include "mxgemm/export.h"
#include "mxgemm/plan.h"
#include "mxgemm/weights.h"

namespace mxgemm {

/// Bound on |S - exact| that a kernel keeps. docs/numerics.md, section 3.
enum class ErrorClass : int { block_exact = 0, element_accumulating = 1 };

MXGEMM_EXPORT std::string_view to_string(ErrorClass error_class) noexcept;

/// One row of the registry, the most specialised kernel first, the reference last.
struct KernelInfo {
  std::string name;
  DeviceKind device = DeviceKind::cpu;
  std::vector<Layout> layouts;        // weight layouts it reads
  std::optional<Reproducible> mxfp4;  // strongest promise with quantized A; none: cannot
  std::optional<Reproducible> none;   // the same with A as it is (W4A16)
  ErrorClass error_class = ErrorClass::block_exact;  // with quantized A
  std::string needs;                                 // "AVX2 and FMA"; empty: runs anywhere
  bool runs_here = false;  // on this machine, with the environment as it is
  std::string why_not;     // when it does not
};

MXGEMM_EXPORT std::vector<KernelInfo> kernels();

/// "avx2": the best instruction set this CPU has for our kernels, after MXGEMM_CPU_ISA; a sentence
/// where that variable makes no sense.
MXGEMM_EXPORT std::string cpu_isa();

}  // namespace mxgemm
