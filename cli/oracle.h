// What a kernel's result has to be: bit for bit cpu_reference's, or within the error bound of its
// class (numerics.md, section 3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mxgemm/kernels.h"
#include "mxgemm/plan.h"
#include "mxgemm/tensor.h"
#include "mxgemm/weights.h"

namespace mxgemm::cli {

/// C[m,n] in float32, dense.
struct Product {
  std::vector<float> values;
  std::int64_t m = 0, n = 0;
  std::string kernel;  // the one that computed it
};

/// Runs the plan that `options` asks for.
Result<Product> compute(const Weights& weights, const ConstMatrix& a, const PlanOptions& options);

/// Exact sums in double, and how far a kernel of a class may be from them.
struct Expected {
  std::vector<double> exact, bound;
  std::int64_t m = 0, n = 0;
};
Result<Expected> expected_product(const ConstMatrix& a, const Mxfp4View& w, Activation activation,
                                  ErrorClass error_class);

/// The bound that holds for a kernel: W4A16 always accumulates elements.
ErrorClass error_class_of(const KernelInfo& kernel, Activation activation) noexcept;

/// A place of C where two results differ, in words; none if they don't. c is looked at in every
/// row_step-th row and col_step-th column, where it has to match the other's next one.
std::optional<std::string> differs_in_bits(const Product& c, const Product& reference,
                                           std::int64_t row_step = 1, std::int64_t col_step = 1);
std::optional<std::string> exceeds_bound(const Product& c, const Expected& expected,
                                         std::int64_t row_step = 1, std::int64_t col_step = 1);

/// Float product of bf16 activations with float weights, in double.
std::vector<double> float_product(const ConstMatrix& a, const std::vector<float>& w,
                                  std::int64_t n);

/// Any float matrix, dense, as float32.
std::vector<float> to_float32(const ConstMatrix& in);
/// The values of MXFP4 codes.
Result<std::vector<float>> to_float32(const Mxfp4View& in);

}  // namespace mxgemm::cli
