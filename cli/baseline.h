// Other libraries' products, to compare with: C[M,N] = A * W^T on the same values as floats. Each
// lives in a module of its own, built where the library was found and loaded only when it is asked
// for, so that the command itself depends on none of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mxgemm/status.h"
#include "mxgemm/tensor.h"

namespace mxgemm::cli {

/// What a baseline computes: a [m, k] bf16 and w [n, k] float32, both dense.
struct BaselineProblem {
  Shape shape;
  const bf16* a = nullptr;
  const float* w = nullptr;
  std::int64_t num_copies = 1;  // of W, as the library wants it stored
  int num_threads = 1;          // exactly so many, the caller's among them
};

/// A product that is ready to run; preparing W is not part of it. Its C has at most the rounding
/// errors of sums in float32, and of one rounding to the type of C.
class Baseline {
 public:
  Baseline() = default;
  Baseline(const Baseline&) = delete;
  Baseline& operator=(const Baseline&) = delete;
  virtual ~Baseline() = default;

  /// Library, version and what it runs: "oneDNN 2.6.3 bf16".
  virtual std::string description() const = 0;
  virtual Status run(std::int64_t copy) = 0;
  /// Of the last run. Dense [m, n].
  virtual ConstMatrix c() const = 0;
};

/// A baseline of this source tree, built or not.
struct BaselineInfo {
  std::string_view name;     // for --against
  std::string_view what;     // in words
  std::string_view package;  // Debian's, that has to be there when mxgemm is built
  bool built = false;
  std::int64_t weight_bits;  // an element of W
};
std::span<const BaselineInfo> baselines();

/// "onednn, openblas": those that are built in, or "none".
std::string built_baselines();

/// Errors: invalid_argument (no such name), unsupported (not built in).
Result<const BaselineInfo*> find_baseline(std::string_view name);

/// Loads the module and prepares the product. Errors: unsupported (not built in; the module or its
/// library cannot be loaded; the library cannot do it on this machine), out_of_memory.
Result<std::unique_ptr<Baseline>> make_baseline(const BaselineInfo& info,
                                                const BaselineProblem& problem);

}  // namespace mxgemm::cli

/// The one symbol of a module. `result` holds the product, or why there is none.
extern "C" __attribute__((visibility("default"))) void mxgemm_make_baseline(
    const mxgemm::cli::BaselineProblem& problem,
    mxgemm::Result<std::unique_ptr<mxgemm::cli::Baseline>>& result);
