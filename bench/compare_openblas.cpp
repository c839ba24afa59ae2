// Every kernel and OpenBLAS sgemm, one thread each, interleaved in one process:
//   compare_openblas [M,N,K ...]      default 16,2112,7168
// Prints medians in microseconds and each kernel's speed relative to sgemm and to cpu_reference.
// Quantization of A is part of a kernel's time; sgemm gets both operands as float32 already.
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "formats/mxfp4.h"
#include "mxgemm/mxgemm.h"

extern "C" {
char* openblas_get_corename(void);
void openblas_set_num_threads(int num_threads);
}

namespace mxgemm {
namespace {

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> times;  // microseconds

  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

double microseconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

template <class T>
T or_exit(Result<T> result) {
  if (result.is_ok()) return std::move(result).value();
  std::fprintf(stderr, "compare_openblas: %s\n", result.status().c_str());
  std::exit(1);
}

int compare(const Shape& shape) {
  const auto [m, n, k] = shape;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<std::size_t>(m * k)), w(static_cast<std::size_t>(n * k));
  for (float& x : a) x = formats::bf16_to_float(formats::float_to_bf16(normal(rng)));
  for (float& x : w) x = normal(rng) * 0.02f;
  std::vector<std::uint16_t> a16(a.size());
  std::transform(a.begin(), a.end(), a16.begin(), formats::float_to_bf16);

  const Weights row_major = or_exit(Weights::quantize(MatrixView<const float>{w.data(), n, k, k}));
  const Weights packed = or_exit(row_major.pack(Device::cpu()));
  const MatrixView<const bf16> a_view{reinterpret_cast<const bf16*>(a16.data()), m, k, k};
  std::vector<float> c_blas(static_cast<std::size_t>(m * n)), c_first;
  std::vector<std::vector<std::byte>> workspaces;
  std::vector<std::vector<float>> outputs;
  std::vector<Plan> plans;
  std::vector<bool> ordered;  // the kernel has the ordered sum
  const std::vector<KernelInfo> all = kernels();
  workspaces.reserve(all.size());
  outputs.reserve(all.size());
  plans.reserve(all.size());

  std::vector<Contender> contenders;
  contenders.push_back({"openblas sgemm",
                        [&] {
                          cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m),
                                      static_cast<int>(n), static_cast<int>(k), 1.0f, a.data(),
                                      static_cast<int>(k), w.data(), static_cast<int>(k), 0.0f,
                                      c_blas.data(), static_cast<int>(n));
                        },
                        {}});
  for (const KernelInfo& kernel : all) {
    if (!kernel.runs_here || !kernel.mxfp4) continue;
    plans.push_back(or_exit(Plan::create(Device::cpu(), packed, m, {.kernel = kernel.name})));
    workspaces.emplace_back(plans.back().workspace_bytes());
    outputs.emplace_back(c_blas.size());
    ordered.push_back(kernel.mxfp4 == Reproducible::device);
    const std::size_t i = plans.size() - 1;
    contenders.push_back({kernel.name,
                          [&, i] {
                            const Status s =
                                plans[i].run(a_view, MatrixView<float>{outputs[i].data(), m, n, n},
                                             workspaces[i]);
                            if (!s.is_ok()) std::abort();
                          },
                          {}});
  }

  // Check before timing: kernels with the ordered sum agree bit for bit, the others to far less
  // than the quantization noise, which is what lies between all of them and sgemm.
  for (const Contender& c : contenders) c.run();
  const std::vector<float>& reference_output = outputs.back();
  double error = 0, power = 0;
  for (std::size_t i = 0; i < c_blas.size(); ++i) {
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      const double limit = ordered[j] ? 0.0 : 1e-4 * std::sqrt(static_cast<double>(k));
      if (std::fabs(double{outputs[j][i]} - reference_output[i]) > limit)
        return std::fprintf(stderr, "kernels differ\n"), 1;
    }
    const double difference = reference_output[i] - c_blas[i];
    error += difference * difference;
    power += double{c_blas[i]} * c_blas[i];
  }
  if (error > 0.05 * power) return std::fprintf(stderr, "far from sgemm\n"), 1;

  for (int round = 0; round < 25; ++round)
    for (Contender& c : contenders)
      if (c.name != "cpu_reference" || round < 5) c.times.push_back(microseconds(c.run));
  const double blas = contenders.front().median(), reference = contenders.back().median();
  const double operations =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::printf("%lld,%lld,%lld  (OpenBLAS core %s, 1 thread each)\n", static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k), openblas_get_corename());
  for (Contender& c : contenders)
    std::printf("  %-16s median %10.1f us  %7.1f GOPS  x sgemm %6.2f  x reference %7.1f\n",
                c.name.c_str(), c.median(), operations / c.median() * 1e-3, blas / c.median(),
                reference / c.median());
  return 0;
}

}  // namespace
}  // namespace mxgemm

int main(int argc, char** argv) {
  openblas_set_num_threads(1);
  std::vector<mxgemm::Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    long long m = 0, n = 0, k = 0;
    if (std::sscanf(argv[i], "%lld,%lld,%lld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) {
      std::fprintf(stderr, "compare_openblas: '%s' is not M,N,K with sizes of 1 and more\n",
                   argv[i]);
      return 2;
    }
    shapes.push_back({m, n, k});
  }
  if (shapes.empty()) shapes.push_back({16, 2112, 7168});
  int failures = 0;
  for (const mxgemm::Shape& shape : shapes) failures += mxgemm::compare(shape);
  return failures == 0 ? 0 : 1;
}
