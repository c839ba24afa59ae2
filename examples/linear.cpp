// One MXFP4 linear layer, y = x * W^T: quantize the weights, pack them for this CPU, plan, run.
#include <mxgemm/mxgemm.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace mxgemm;

int main() {
  constexpr std::int64_t m = 4, n = 256, k = 512;
  std::vector<float> w(n * k), x(m * k), y(m * n);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : w) value = normal(random);
  for (float& value : x) value = normal(random);

  // Slow and once: 4-bit weights, in the layout that this machine's best kernel reads.
  const auto weights = Weights::quantize({w.data(), DType::f32, n, k, k});
  if (!weights.is_ok()) return std::fprintf(stderr, "%s\n", weights.status().c_str()), 1;
  const auto packed = weights->pack(Device::cpu());
  if (!packed.is_ok()) return std::fprintf(stderr, "%s\n", packed.status().c_str()), 1;
  const auto threads = ThreadPool::create();
  if (!threads.is_ok()) return std::fprintf(stderr, "%s\n", threads.status().c_str()), 1;
  const auto plan = Plan::create(Device::cpu(), *packed, m, {.threads = threads->get()});
  if (!plan.is_ok()) return std::fprintf(stderr, "%s\n", plan.status().c_str()), 1;

  // Fast and often: run() allocates nothing; activations are quantized inside.
  std::vector<std::byte> workspace(plan->workspace_bytes());
  const Status status =
      plan->run({x.data(), DType::f32, m, k, k}, {y.data(), DType::f32, m, n, n}, workspace);
  if (!status.is_ok()) return std::fprintf(stderr, "%s\n", status.c_str()), 1;

  double error = 0, total = 0;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t col = 0; col < n; ++col) {
      double exact = 0;
      for (std::int64_t i = 0; i < k; ++i) exact += double{x[row * k + i]} * w[col * k + i];
      error += (y[row * n + col] - exact) * (y[row * n + col] - exact);
      total += exact * exact;
    }
  }
  std::printf("%s: 4-bit products differ from float ones by %.1f %% (root mean square)\n",
              plan->kernel(m).data(), 100 * std::sqrt(error / total));
  return error < 0.04 * total ? 0 : 1;  // two operands of 4 bits: about 16 %
}
