#include "plan/choose.h"

#include <algorithm>
#include <utility>

namespace mxgemm {
namespace {

/// "row_major or cpu_panel16".
std::string layout_names(std::span<const Layout> layouts) {
  std::string names;
  for (const Layout layout : layouts) {
    if (!names.empty()) names += " or ";
    names += to_string(layout);
  }
  return names;
}

}  // namespace

Status check_support(const KernelDesc& kernel, const Problem& problem, const Device& device,
                     int* checks_passed) {
  int unused = 0;
  int& passed = checks_passed == nullptr ? unused : *checks_passed;
  passed = 0;
  if (kernel.device != device.kind)
    return Status::error(StatusCode::unsupported, "runs on another kind of device");
  ++passed;
  const std::optional<Reproducible> promise = kernel.promise(problem.activation);
  if (!promise)
    return Status::error(StatusCode::unsupported, "it does not take activation = %s",
                         to_string(problem.activation).data());
  ++passed;
  if (*promise < problem.reproducible)
    return Status::error(StatusCode::unsupported,
                         "it promises reproducible = %s with activation = %s, and %s is asked for",
                         to_string(*promise).data(), to_string(problem.activation).data(),
                         to_string(problem.reproducible).data());
  ++passed;
  if (std::find(kernel.layouts.begin(), kernel.layouts.end(), problem.layout) ==
      kernel.layouts.end())
    return Status::error(StatusCode::unsupported,
                         "the weights are %s and it reads %s; use Weights::pack",
                         to_string(problem.layout).data(), layout_names(kernel.layouts).c_str());
  ++passed;
  return kernel.supports(problem, device);
}

namespace {

/// The config with the lowest estimate.
void score(Candidate& candidate, const Problem& problem) {
  for (const Config& config : candidate.kernel->configs) {
    const double estimate = candidate.kernel->estimate_us(problem, config);
    candidate.estimates.push_back(estimate);
    if (candidate.estimates.size() > 1 && estimate >= candidate.estimate_us) continue;
    candidate.config = config;
    candidate.estimate_us = estimate;
  }
}

/// The candidate that a row names; null, and why in *reason (if it is asked for), where the row
/// cannot be used.
Candidate* find_candidate(const TuningRow& row, std::span<Candidate> candidates, Status* reason) {
  const auto candidate =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Candidate& c) { return c.kernel->name == row.kernel; });
  if (candidate == candidates.end()) {
    if (reason != nullptr)
      *reason = Status::error(StatusCode::unsupported, "this build does not have it");
    return nullptr;
  }
  if (!candidate->verdict.is_ok()) {
    if (reason != nullptr) *reason = candidate->verdict;
    return nullptr;
  }
  const auto& configs = candidate->kernel->configs;
  if (std::find(configs.begin(), configs.end(), row.config) != configs.end()) return &*candidate;
  if (reason != nullptr)
    *reason = Status::error(StatusCode::unsupported, "the config is none of its own");
  return nullptr;
}

/// Takes the first row that serves m and may be used, if there is one.
void apply_tuning(Choice& choice, const Problem& problem, const TuningSources& tuning) {
  for (const TuningSource& source : tuning) {
    const auto first =
        std::lower_bound(source.rows.begin(), source.rows.end(), problem.shape.m,
                         [](const TuningRow* row, std::int64_t m) { return row->m_max < m; });
    for (auto row = first; row != source.rows.end(); ++row) {
      Status reason;
      const bool tell = choice.skipped.size() < kMaxSkippedRows;  // of thousands, only the first
      Candidate* candidate = find_candidate(**row, choice.candidates, tell ? &reason : nullptr);
      if (candidate == nullptr) {
        if (tell) choice.skipped.push_back({{*row, source.name}, reason});
        continue;
      }
      candidate->config = (*row)->config;
      candidate->estimate_us = candidate->kernel->estimate_us(problem, candidate->config);
      choice.kernel = candidate->kernel;
      choice.config = candidate->config;
      choice.tuning = {*row, source.name};
      return;
    }
  }
}

}  // namespace

double Choice::estimate_us() const noexcept {
  for (const Candidate& candidate : candidates)
    if (candidate.kernel == kernel) return candidate.estimate_us;
  return 0;
}

Choice choose(std::span<const KernelDesc* const> kernels, const Problem& problem,
              const Device& device, const OnlyKernel& only, const TuningSources& tuning) {
  Choice choice;
  double lowest = 0;
  for (const KernelDesc* kernel : kernels) {
    Candidate candidate{.kernel = kernel};
    if (!only.name.empty() && kernel->name != only.name)
      candidate.verdict = Status::error(StatusCode::unsupported, "kernel '%.*s' %.*s",
                                        static_cast<int>(only.name.size()), only.name.data(),
                                        static_cast<int>(only.reason.size()), only.reason.data());
    else
      candidate.verdict = check_support(*kernel, problem, device, &candidate.checks_passed);
    if (candidate.verdict.is_ok()) {
      score(candidate, problem);
      if (choice.kernel == nullptr || candidate.estimate_us < lowest) {
        choice.kernel = kernel;
        choice.config = candidate.config;
        lowest = candidate.estimate_us;
      }
    }
    choice.candidates.push_back(std::move(candidate));
  }
  apply_tuning(choice, problem, tuning);
  return choice;
}

}  // namespace mxgemm
