#include "plan/tuning.h"

#include <algorithm>

namespace mxgemm {
namespace {

// One file for each kind of device. A row whose kernel is not in this build is skipped.
constexpr TuningRow kBuiltIn[] = {
#include "plan/tuning_cpu.inc"
};

}  // namespace

std::span<const TuningRow> built_in_tuning() noexcept {
  return kBuiltIn;
}

TuningSource tuning_source(std::string_view name, std::span<const TuningRow> rows,
                           std::string_view device, const Problem& problem) {
  TuningSource source{.name = name};
  for (const TuningRow& row : rows)
    if (row.n == problem.shape.n && row.k == problem.shape.k &&
        row.activation == problem.activation && row.device == device)
      source.rows.push_back(&row);
  std::stable_sort(
      source.rows.begin(), source.rows.end(), [](const TuningRow* a, const TuningRow* b) {
        return a->m_max != b->m_max ? a->m_max < b->m_max : a->evidence.us < b->evidence.us;
      });
  return source;
}

}  // namespace mxgemm
