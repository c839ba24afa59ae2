#include "plan/choose.h"

#include <algorithm>

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
    const bool first = &config == &candidate.kernel->configs.front();
    if (!first && estimate >= candidate.estimate_us) continue;
    candidate.config = config;
    candidate.estimate_us = estimate;
  }
}

}  // namespace

Choice choose(std::span<const KernelDesc* const> kernels, const Problem& problem,
              const Device& device, std::string_view forced) {
  Choice choice;
  double lowest = 0;
  for (const KernelDesc* kernel : kernels) {
    Candidate candidate{.kernel = kernel};
    if (!forced.empty() && kernel->name != forced)
      candidate.verdict = Status::error(StatusCode::unsupported, "kernel '%.*s' is asked for",
                                        static_cast<int>(forced.size()), forced.data());
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
    choice.candidates.push_back(candidate);
  }
  return choice;
}

std::string to_string(const Config& config) {
  std::string text;
  const auto add = [&text](const char* name, int value, int unset) {
    if (value == unset) return;
    if (!text.empty()) text += ", ";
    text += name;
    text += ' ';
    text += std::to_string(value);
  };
  add("block_m", config.block_m, 0);
  add("block_n", config.block_n, 0);
  add("block_k", config.block_k, 0);
  add("split_k", config.split_k, 1);
  add("stages", config.stages, 0);
  add("warps", config.warps, 0);
  add("group_m", config.group_m, 0);
  add("cache_policy", config.cache_policy, 0);
  add("min_waves", config.min_waves, 0);
  return text;
}

}  // namespace mxgemm
