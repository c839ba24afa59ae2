// What a Plan handle points to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/tuning_impl.h"
#include "api/weights_impl.h"
#include "mxgemm/plan.h"
#include "plan/choose.h"
#include "plan/kernel.h"

namespace mxgemm {

struct Plan::Impl {
  Device device;
  std::optional<Weights> weights;  // none: only to be explained
  WeightsView view;
  std::int64_t m_max = 0;
  PlanOptions options;  // its `kernel` is replaced by `forced`; its `tuning` by the one below
  std::string forced;
  std::optional<Tuning> tuning;  // rows of the choices point into it
  std::string tuning_device;     // what rows call this device
  TuningSources sources;
  std::vector<Bucket> buckets;  // rising m_max; the last one's is the plan's
  std::string environment;      // variables in force at creation, for explain()
  int num_threads = 1;          // of options.threads, at creation: workspaces depend on it
  std::string warning;          // what was ignored at creation
  std::string one_path;         // how a `batch` plan keeps to one numeric path

  Problem problem(std::int64_t m) const noexcept {
    return {.shape = {m, view.n, view.k},
            .layout = view.layout,
            .activation = options.activation,
            .reproducible = options.reproducible,
            .num_threads = num_threads};
  }
  const Bucket& bucket(std::int64_t m) const noexcept {
    return *std::lower_bound(buckets.begin(), std::prev(buckets.end()), m,
                             [](const Bucket& b, std::int64_t rows) { return b.m_max < rows; });
  }
  /// What run() asks of its callers: the kernel's need, and room to align it.
  std::size_t workspace_bytes(std::int64_t m) const noexcept {
    const Bucket& b = bucket(m);
    const std::size_t bytes = b.kernel().workspace_bytes(problem(m), b.choice.config);
    return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - 1;
  }
  Status run(RunArgs args, std::span<std::byte> workspace, Stream stream) const noexcept;
};

}  // namespace mxgemm
