// Whether what is about to be timed computes the right thing, on a sample of C that is spread over
// all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "baseline.h"
#include "mxgemm/kernels.h"
#include "mxgemm/plan.h"
#include "mxgemm/weights.h"

namespace mxgemm::cli {

class BenchCheck {
 public:
  /// `a` bf16, `weights` row_major; both must outlive this.
  BenchCheck(const ConstMatrix& a, const Weights& weights, Activation activation);

  std::int64_t num_rows() const noexcept { return rows_; }
  std::int64_t num_cols() const noexcept { return cols_; }

  /// Runs the very plan that is timed on all of A. Empty: right; else the first place that is not.
  Result<std::string> check(const KernelInfo& kernel, const Plan& plan,
                            std::span<std::byte> workspace) const;
  /// The same of what a baseline's last run left in its C: a product of A as it is.
  Result<std::string> check(const Baseline& baseline) const;

 private:
  ConstMatrix sampled_rows() const noexcept;
  Result<Weights> sampled_weights() const;

  ConstMatrix a_;
  const Weights& weights_;
  Activation activation_;
  std::int64_t row_step_, col_step_, rows_, cols_;
};

}  // namespace mxgemm::cli
