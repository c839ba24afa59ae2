#include "oracle.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/mxfp4.h"
#include "mxgemm/quantize.h"

namespace mxgemm::cli {
namespace {

/// The values that a kernel multiplies.
Result<std::vector<float>> effective_activations(const ConstMatrix& a, Activation activation) {
  if (activation == Activation::none) return to_float32(a);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(a.rows * codes_per_row_bytes(a.cols)));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(a.rows * scales_per_row(a.cols)));
  const Mxfp4Buffer q = mxfp4_buffer(codes.data(), scales.data(), a.rows, a.cols);
  if (const Status status = quantize(a, q); !status.is_ok()) return status;
  return to_float32(Mxfp4View(q));
}

struct Sums {
  double exact = 0, blocks = 0, elements = 0;  // sum, sum of |block|, sum of |element|
};

Sums dot(const float* a, const float* w, std::int64_t k) {
  Sums sums;
  for (std::int64_t begin = 0; begin < k; begin += formats::kBlock) {
    const std::int64_t end = std::min<std::int64_t>(begin + formats::kBlock, k);
    double block = 0, magnitude = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double product = static_cast<double>(a[i]) * static_cast<double>(w[i]);
      block += product;
      magnitude += std::fabs(product);
    }
    sums.exact += block;
    sums.blocks += std::fabs(block);
    sums.elements += magnitude;
  }
  return sums;
}

double bound_of(const Sums& sums, std::int64_t k, ErrorClass error_class) {
  const auto n = static_cast<double>(scales_per_row(k));
  const double tiny = n * 0x1p-149;
  if (error_class == ErrorClass::block_exact) return n * 0x1p-24 * sums.blocks + tiny;
  return (static_cast<double>(k) / 16 + n) * 0x1p-22 * sums.elements + tiny;
}

std::string place(std::int64_t row, std::int64_t col, float got, double want) {
  return fmt::format("C[{}, {}] is {:.9g}, must be {:.9g}", row, col, got, want);
}

}  // namespace

Result<Product> compute(const Weights& weights, const ConstMatrix& a, const PlanOptions& options) {
  const auto plan = Plan::create(Device::cpu(), weights, a.rows, options);
  if (!plan.is_ok()) return plan.status();
  Product c{std::vector<float>(static_cast<std::size_t>(a.rows * weights.n())), a.rows, weights.n(),
            std::string(plan->kernel(a.rows))};
  std::vector<std::byte> workspace(plan->workspace_bytes(a.rows));
  const Matrix out(c.values.data(), DType::f32, c.m, c.n, c.n);
  if (const Status status = plan->run(a, out, workspace); !status.is_ok()) return status;
  return c;
}

Result<Expected> expected_product(const ConstMatrix& a, const Mxfp4View& w, Activation activation,
                                  ErrorClass error_class) {
  const auto left = effective_activations(a, activation);
  if (!left.is_ok()) return left.status();
  const auto right = to_float32(w);
  if (!right.is_ok()) return right.status();
  Expected expected;
  expected.m = a.rows;
  expected.n = w.rows;
  for (std::int64_t m = 0; m < a.rows; ++m) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      const Sums sums = dot(left->data() + m * a.cols, right->data() + n * a.cols, a.cols);
      expected.exact.push_back(sums.exact);
      expected.bound.push_back(bound_of(sums, a.cols, error_class));
    }
  }
  return expected;
}

ErrorClass error_class_of(const KernelInfo& kernel, Activation activation) noexcept {
  return activation == Activation::none ? ErrorClass::element_accumulating : kernel.error_class;
}

std::optional<std::string> differs_in_bits(const Product& c, const Product& reference,
                                           std::int64_t row_step, std::int64_t col_step) {
  for (std::int64_t m = 0; m < reference.m; ++m) {
    for (std::int64_t n = 0; n < reference.n; ++n) {
      const float got = c.values[static_cast<std::size_t>(m * row_step * c.n + n * col_step)];
      const float want = reference.values[static_cast<std::size_t>(m * reference.n + n)];
      if (std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want)) continue;
      return place(m * row_step, n * col_step, got, static_cast<double>(want)) +
             " as cpu_reference has it";
    }
  }
  return std::nullopt;
}

std::optional<std::string> exceeds_bound(const Product& c, const Expected& expected,
                                         std::int64_t row_step, std::int64_t col_step) {
  constexpr double kMax = std::numeric_limits<float>::max();
  for (std::int64_t m = 0; m < expected.m; ++m) {
    for (std::int64_t n = 0; n < expected.n; ++n) {
      const auto i = static_cast<std::size_t>(m * expected.n + n);
      const double exact = expected.exact[i], bound = expected.bound[i];
      const float got = c.values[static_cast<std::size_t>(m * row_step * c.n + n * col_step)];
      if (std::isnan(exact) ? std::isnan(got)
                            : std::fabs(exact) + bound > kMax  // no bound where sums overflow
                                  || std::fabs(static_cast<double>(got) - exact) <= bound) {
        continue;
      }
      return place(m * row_step, n * col_step, got, exact) + fmt::format(" +- {:.3g}", bound);
    }
  }
  return std::nullopt;
}

std::vector<double> float_product(const ConstMatrix& a, const std::vector<float>& w,
                                  std::int64_t n) {
  const std::vector<float> left = to_float32(a);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(a.rows * n));
  for (std::int64_t m = 0; m < a.rows; ++m) {
    for (std::int64_t j = 0; j < n; ++j) {
      out.push_back(dot(left.data() + m * a.cols, w.data() + j * a.cols, a.cols).exact);
    }
  }
  return out;
}

std::vector<float> to_float32(const ConstMatrix& in) {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(in.rows * in.cols));
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const auto* row =
        static_cast<const unsigned char*>(in.data) + r * in.row_stride * size_of(in.dtype);
    for (std::int64_t c = 0; c < in.cols; ++c) {
      std::uint16_t half = 0;
      float value = 0;
      if (in.dtype == DType::f32) {
        std::memcpy(&value, row + c * 4, sizeof value);
      } else {
        std::memcpy(&half, row + c * 2, sizeof half);
        value =
            in.dtype == DType::bf16 ? formats::bf16_to_float(half) : formats::f16_to_float(half);
      }
      out.push_back(value);
    }
  }
  return out;
}

Result<std::vector<float>> to_float32(const Mxfp4View& in) {
  std::vector<float> out(static_cast<std::size_t>(in.rows * in.cols));
  const Matrix view(out.data(), DType::f32, in.rows, in.cols, in.cols);
  if (const Status status = dequantize(in, view); !status.is_ok()) return status;
  return out;
}

}  // namespace mxgemm::cli
