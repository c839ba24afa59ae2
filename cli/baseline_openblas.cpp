// OpenBLAS sgemm: A and W converted to float32 beforehand, W row-major as BLAS wants it.
#include <cblas.h>

#include <climits>
#include <cstring>
#include <new>

#include "baseline.h"
#include "formats/mxfp4.h"
#include "huge_buffer.h"

namespace mxgemm::cli {
namespace {

class OpenBlas final : public Baseline {
 public:
  explicit OpenBlas(const BaselineProblem& problem)
      : shape_(problem.shape),
        num_threads_(problem.num_threads),
        copy_floats_(static_cast<std::size_t>(shape_.n * shape_.k + 15) / 16 * 16),
        a_(static_cast<std::size_t>(shape_.m * shape_.k) * sizeof(float)),
        w_(static_cast<std::size_t>(problem.num_copies) * copy_floats_ * sizeof(float)),
        c_(static_cast<std::size_t>(shape_.m * shape_.n) * sizeof(float)) {
    for (std::int64_t i = 0; i < shape_.m * shape_.k; ++i) {
      a_.as<float>()[i] = formats::bf16_to_float(problem.a[i].bits);
    }
    for (std::int64_t i = 0; i < problem.num_copies; ++i) {
      std::memcpy(copy(i), problem.w,
                  static_cast<std::size_t>(shape_.n * shape_.k) * sizeof(float));
    }
  }

  std::string description() const override {
    const std::string_view config = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
    const std::size_t end = config.find(' ', config.find(' ') + 1);
    return std::string(config.substr(0, end)) + ", sgemm for " + openblas_get_corename();
  }

  Status run(std::int64_t index) override {
    openblas_set_num_threads(num_threads_);
    const auto [m, n, k] = shape_;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(m),
                static_cast<blasint>(n), static_cast<blasint>(k), 1.0f, a_.as<float>(),
                static_cast<blasint>(k), copy(index), static_cast<blasint>(k), 0.0f, c_.as<float>(),
                static_cast<blasint>(n));
    return {};
  }

  ConstMatrix c() const override {
    return ConstMatrix(c_.data(), DType::f32, shape_.m, shape_.n, shape_.n);
  }

 private:
  float* copy(std::int64_t index) const {
    return w_.as<float>() + static_cast<std::size_t>(index) * copy_floats_;
  }

  Shape shape_;
  int num_threads_;
  std::size_t copy_floats_;  // whole cache lines
  HugeBuffer a_, w_, c_;
};

}  // namespace
}  // namespace mxgemm::cli

void mxgemm_make_baseline(const mxgemm::cli::BaselineProblem& problem,
                          mxgemm::Result<std::unique_ptr<mxgemm::cli::Baseline>>& result) {
  using namespace mxgemm;
  const auto [m, n, k] = problem.shape;
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX) {
    result = Status::error(StatusCode::unsupported, "OpenBLAS takes sizes below 2^31");
    return;
  }
  try {
    result = std::unique_ptr<cli::Baseline>(std::make_unique<cli::OpenBlas>(problem));
  } catch (const std::bad_alloc&) {
    result = Status::error(StatusCode::out_of_memory, "no memory for OpenBLAS's weights");
  }
}
