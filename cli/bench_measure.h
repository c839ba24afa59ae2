// Checks and times kernels, other libraries and the roofs on one shape, all in turn, so that
// whatever slows the machine down for a moment slows all alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baseline.h"
#include "distributions.h"
#include "mxgemm/plan.h"
#include "mxgemm/status.h"
#include "mxgemm/weights.h"
#include "plan/kernel.h"

namespace mxgemm::cli {

struct Timing {
  double median_us = 0, min_us = 0;
};

/// Of a kernel or a baseline.
struct Contestant {
  std::string name;
  std::optional<Config> config;   // a kernel's; none: the one that a plan chooses
  std::string description;        // a baseline's library and version
  std::int64_t weight_bytes = 0;  // that a run reads
  Timing warm, cold;
  std::int64_t runs = 0;
  std::string skipped;   // why it was not measured
  std::string mismatch;  // where its result was wrong: not measured

  bool measured() const { return skipped.empty() && mismatch.empty(); }
};

/// One shape with one number of threads.
struct ShapeTiming {
  Shape shape;
  std::string label, scales;
  int num_threads = 1;
  std::int64_t weight_bytes = 0;                    // row_major: codes and scales
  std::int64_t num_copies = 0;                      // of the weights, in the cold runs
  std::int64_t checked_rows = 0, checked_cols = 0;  // of C, against the reference
  Timing floor_warm, floor_cold;                    // reading the weights
  double peak_gops = 0;                             // of the machine's int8; 0: not known
  std::vector<Contestant> kernels, baselines;

  double operations() const;
  /// Microseconds of the multiplications alone; 0: not known.
  double compute_us() const;
  /// No run can be faster: the larger one of reading and multiplying.
  double roof_us(const Timing& floor) const;
};

struct BenchOptions {
  std::vector<std::string> kernels;  // empty: all that run here but the reference
  std::vector<const BaselineInfo*> baselines;
  const Distribution* scales = &distributions().front();
  Activation activation = Activation::mxfp4;
  double seconds = 2;         // for one shape
  bool every_config = false;  // each config of a kernel takes part, not just the plan's choice
  // Not 0: skips kernels whose first runs take so many times the fastest one's, unless named.
  double max_slowdown = 0;
};

/// `weights` are row_major; `label` names where they come from. One result for each pool.
Result<std::vector<ShapeTiming>> measure_shape(const Shape& shape, const Weights& weights,
                                               const std::string& label,
                                               const BenchOptions& options,
                                               std::span<const std::unique_ptr<ThreadPool>> pools);

/// Weights of a shape with random codes and scales of ordinary size.
Result<Weights> random_weights(std::int64_t n, std::int64_t k);

}  // namespace mxgemm::cli
