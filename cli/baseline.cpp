#include "baseline.h"

#include <dlfcn.h>

namespace mxgemm::cli {

std::span<const BaselineInfo> baselines() {
  static constexpr BaselineInfo kBaselines[] = {
      {"onednn", "oneDNN matmul, A, W and C in bf16, W prepacked", "libdnnl-dev",
       MXGEMM_WITH_ONEDNN != 0, 16},
      {"openblas", "OpenBLAS sgemm, A, W and C in float32", "libopenblas-dev",
       MXGEMM_WITH_OPENBLAS != 0, 32},
  };
  return kBaselines;
}

std::string built_baselines() {
  std::string names;
  for (const BaselineInfo& info : baselines()) {
    if (info.built) names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names.empty() ? "none" : names;
}

Result<const BaselineInfo*> find_baseline(std::string_view name) {
  std::string names;
  for (const BaselineInfo& info : baselines()) {
    names += (names.empty() ? "" : ", ") + std::string(info.name);
    if (info.name != name) continue;
    if (info.built) return &info;
    return Status::error(StatusCode::unsupported,
                         "baseline \"%s\" is not built in: install Debian's %s, then configure and "
                         "build mxgemm again",
                         std::string(name).c_str(), std::string(info.package).c_str());
  }
  return Status::error(StatusCode::invalid_argument, "--against is \"%s\", must be %s",
                       std::string(name).c_str(), names.c_str());
}

Result<std::unique_ptr<Baseline>> make_baseline(const BaselineInfo& info,
                                                const BaselineProblem& problem) {
  // Found beside the command, or where it was installed: the command's RUNPATH. It stays loaded,
  // because the library's threads do.
  const std::string file = "mxgemm_baseline_" + std::string(info.name) + ".so";
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return Status::error(StatusCode::unsupported, "baseline \"%s\" cannot be loaded: %s",
                         std::string(info.name).c_str(), dlerror());
  }
  const auto make =
      reinterpret_cast<decltype(&mxgemm_make_baseline)>(dlsym(module, "mxgemm_make_baseline"));
  if (make == nullptr) {
    return Status::error(StatusCode::unsupported, "%s is no baseline: %s", file.c_str(), dlerror());
  }
  Result<std::unique_ptr<Baseline>> result = std::unique_ptr<Baseline>();
  make(problem, result);
  return result;
}

}  // namespace mxgemm::cli
