// What a kernel is to the rest of the library: a row of the registry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "layout/weights_view.h"
#include "mxgemm/device.h"
#include "mxgemm/kernels.h"
#include "mxgemm/plan.h"
#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm {

/// Everything that changes the speed of a kernel and never its result. 0: the kernel has no such
/// choice.
struct Config {
  int block_m = 0, block_n = 0, block_k = 0;  // tile of C, and step along K in elements
  int split_k = 1;
  int stages = 0, warps = 0, group_m = 0;  // GPU: pipeline depth, warps a block, block swizzle
  int cache_policy = 0, min_waves = 0;

  friend constexpr bool operator==(const Config&, const Config&) noexcept = default;
};

/// What a plan is asked for, at one M.
struct Problem {
  Shape shape;
  Layout layout = Layout::row_major;
  Activation activation = Activation::mxfp4;
  Reproducible reproducible = Reproducible::run;
  int num_threads = 1;  // that a run may use
};

/// A part of the summation tree to compute instead of C; see Plan::run_partial.
struct PartialOutput {
  float* sums = nullptr;                      // [num_nodes, M, N]; null: compute C
  std::int64_t span_begin = 0, span_end = 0;  // within this plan's K
  std::int64_t first_span = 0;                // of this plan's K within the whole layer
};

/// Arguments of one run, already validated.
struct RunArgs {
  ConstMatrix a;      // used unless a_mxfp4 is set
  Mxfp4View a_mxfp4;  // codes null: quantize or convert a
  WeightsView w;
  Matrix c;
  Epilogue epilogue;
  PartialOutput partial;
  Activation activation = Activation::mxfp4;
  Reproducible reproducible = Reproducible::run;  // what the plan promises
  ScaleRule activation_rule = ScaleRule::even;
  NonFinite non_finite = NonFinite::propagate;
  Config config;
  std::byte* workspace = nullptr;  // aligned to kWorkspaceAlignment
  ThreadPool* threads = nullptr;
  int num_threads = 1;  // of `threads`, as the Problem had it when the plan was made
  Stream stream;

  std::int64_t m() const noexcept { return a_mxfp4.codes != nullptr ? a_mxfp4.rows : a.rows; }
};
inline constexpr std::size_t kWorkspaceAlignment = 64;

struct KernelDesc {
  std::string_view name;
  DeviceKind device;
  std::string_view needs;                   // what the machine must have; empty: nothing
  std::span<const Layout> layouts;          // weight layouts it reads, preferred first
  std::span<const Config> configs;          // preferred first
  std::optional<Reproducible> mxfp4, none;  // strongest promise by Activation; none: cannot
  ErrorClass error_class;                   // with quantized A; element_accumulating without

  /// ok, or why this machine or problem is not for it.
  Status (*supports)(const Problem& problem, const Device& device) noexcept;
  /// Model of one run's microseconds on one thread, for choosing; not a measurement.
  double (*estimate_us)(const Problem& problem, const Config& config) noexcept;
  std::size_t (*workspace_bytes)(const Problem& problem, const Config& config) noexcept;
  Status (*run)(const RunArgs& args) noexcept;

  std::optional<Reproducible> promise(Activation activation) const noexcept {
    return activation == Activation::mxfp4 ? mxfp4 : none;
  }
};

/// All kernels built in, the most specialised first, the reference last.
std::span<const KernelDesc* const> registry() noexcept;

/// The row of that name; null when there is none.
inline const KernelDesc* find_kernel(std::string_view name) noexcept {
  for (const KernelDesc* kernel : registry())
    if (kernel->name == name) return kernel;
  return nullptr;
}

/// ok, or one sentence on why `kernel` cannot do `problem` here; *checks_passed counts how far it
/// got.
Status check_support(const KernelDesc& kernel, const Problem& problem, const Device& device,
                     int* checks_passed = nullptr);

}  // namespace mxgemm
