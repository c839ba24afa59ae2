#include "bench_check.h"

#include <cmath>
#include <vector>

#include "oracle.h"

namespace mxgemm::cli {
namespace {

constexpr std::int64_t kRows = 17, kCols = 48;  // at most so many: the reference is slow

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

Mxfp4View view_of(const Weights& sample) {
  return mxfp4_view(sample.codes().data(), sample.scales().data(), sample.n(), sample.k());
}

}  // namespace

BenchCheck::BenchCheck(const ConstMatrix& a, const Weights& weights, Activation activation)
    : a_(a),
      weights_(weights),
      activation_(activation),
      row_step_(ceil_div(a.rows, kRows)),
      col_step_(ceil_div(weights.n(), kCols)),
      rows_(ceil_div(a.rows, row_step_)),
      cols_(ceil_div(weights.n(), col_step_)) {}

ConstMatrix BenchCheck::sampled_rows() const noexcept {
  return ConstMatrix(a_.data, a_.dtype, rows_, a_.cols, a_.row_stride * row_step_);
}

/// Every col_step-th row of W, a column of C.
Result<Weights> BenchCheck::sampled_weights() const {
  const std::int64_t k = weights_.k();
  return Weights::from_row_major({weights_.codes().data(), weights_.scales().data(), cols_, k,
                                  codes_per_row_bytes(k) * col_step_,
                                  scales_per_row(k) * col_step_});
}

Result<std::string> BenchCheck::check(const KernelInfo& kernel, const Plan& plan,
                                      std::span<std::byte> workspace) const {
  const std::int64_t m = a_.rows, n = weights_.n();
  Product got{std::vector<float>(static_cast<std::size_t>(m * n)), m, n, kernel.name};
  const Matrix out(got.values.data(), DType::f32, m, n, n);
  if (const Status status = plan.run(a_, out, workspace); !status.is_ok()) return status;
  const auto sample = sampled_weights();
  if (!sample.is_ok()) return sample.status();
  const auto promise = activation_ == Activation::mxfp4 ? kernel.mxfp4 : kernel.none;
  if (promise == Reproducible::device) {
    PlanOptions reference;
    reference.activation = activation_;
    reference.kernel = "cpu_reference";
    reference.reproducible = Reproducible::device;
    const auto want = compute(*sample, sampled_rows(), reference);
    if (!want.is_ok()) return want.status();
    return differs_in_bits(got, *want, row_step_, col_step_).value_or("");
  }
  const auto want = expected_product(sampled_rows(), view_of(*sample), activation_,
                                     error_class_of(kernel, activation_));
  if (!want.is_ok()) return want.status();
  return exceeds_bound(got, *want, row_step_, col_step_).value_or("");
}

Result<std::string> BenchCheck::check(const Baseline& baseline) const {
  const ConstMatrix c = baseline.c();
  const auto sample = sampled_weights();
  if (!sample.is_ok()) return sample.status();
  auto want = expected_product(sampled_rows(), view_of(*sample), Activation::none,
                               ErrorClass::element_accumulating);
  if (!want.is_ok()) return want.status();
  // K sums in float32 one after the other, each rounded by at most 2^-24 of the sum P of the
  // magnitudes: K * 2^-24 * P, which is below four times our own kernels' (K/16 + n) * 2^-22 * P.
  // Then half an ulp of C's type.
  const double half_ulp = c.dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
  for (std::size_t i = 0; i < want->bound.size(); ++i) {
    want->bound[i] *= 4;
    want->bound[i] += half_ulp * (std::fabs(want->exact[i]) + want->bound[i]);
  }
  const Product got{to_float32(c), c.rows, c.cols, {}};
  return exceeds_bound(got, *want, row_step_, col_step_).value_or("");
}

}  // namespace mxgemm::cli
