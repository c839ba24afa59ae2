// C = A * W^T with ones is K everywhere: the smallest program that proves header, link and result.
#include <mxgemm/mxgemm.h>

#include <cstdio>
#include <vector>

int main() {
  constexpr std::int64_t m = 3, n = 5, k = 64;
  const std::vector<float> ones(static_cast<std::size_t>(n * k), 1.0f);
  const auto weights = mxgemm::Weights::quantize({ones.data(), mxgemm::DType::f32, n, k, k});
  if (!weights.is_ok()) return std::puts(weights.status().c_str()), 1;
  const auto plan = mxgemm::Plan::create(mxgemm::Device::cpu(), weights.value(), m);
  if (!plan.is_ok()) return std::puts(plan.status().c_str()), 1;

  std::vector<float> c(static_cast<std::size_t>(m * n), -1.0f);
  std::vector<std::byte> workspace(plan.value().workspace_bytes());
  const mxgemm::Status status =
      plan.value().run({ones.data(), mxgemm::DType::f32, m, k, k},
                       {c.data(), mxgemm::DType::f32, m, n, n}, workspace);
  if (!status.is_ok()) return std::puts(status.c_str()), 1;
  for (const float value : c) {
    if (value != static_cast<float>(k)) return std::printf("got %f, want 64\n", double{value}), 1;
  }
  std::printf("C++ consumer: mxgemm %s, right\n", MXGEMM_VERSION);
  return 0;
}
