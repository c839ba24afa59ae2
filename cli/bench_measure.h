// Checks and times the kernels on one shape, all of them and the read floor in turn, so that
// whatever slows the machine down for a moment slows all alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mxgemm/plan.h"
#include "mxgemm/status.h"
#include "mxgemm/weights.h"

namespace mxgemm::cli {

struct Timing {
  double median_us = 0, min_us = 0;
};

struct KernelTiming {
  std::string kernel;
  Timing warm, cold;
  std::int64_t runs = 0;
  std::string skipped;   // why it was not measured
  std::string mismatch;  // where its result was wrong: not measured
};

struct ShapeTiming {
  Shape shape;
  std::string label;
  std::int64_t weight_bytes = 0;                    // row_major: codes and scales
  std::int64_t num_copies = 0;                      // of the weights, in the cold runs
  std::int64_t checked_rows = 0, checked_cols = 0;  // of C, against the reference
  Timing floor_warm, floor_cold;
  std::vector<KernelTiming> kernels;
};

struct BenchOptions {
  std::vector<std::string> kernels;  // empty: all that run here but the reference
  Activation activation = Activation::mxfp4;
  double seconds = 2;  // for one shape
};

/// `weights` are row_major; `label` names where they come from.
Result<ShapeTiming> measure_shape(const Shape& shape, const Weights& weights, std::string label,
                                  const BenchOptions& options, ThreadPool& threads);

/// Weights of a shape with random codes and scales of ordinary size.
Result<Weights> random_weights(std::int64_t n, std::int64_t k);

}  // namespace mxgemm::cli
