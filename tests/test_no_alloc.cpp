// Plan::run, run_partial, combine_partial_nodes, quantize and dequantize allocate nothing: this
// program's malloc counts while a test says so, on every thread.
#include <atomic>
#include <cstdlib>
#include <functional>

#include "gemm_testing.h"

extern "C" {
void* __libc_malloc(std::size_t size);                     // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);  // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* p, std::size_t size);           // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment,
                      std::size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void note() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
}
}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  note();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note();
  return __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) {
  note();
  return __libc_realloc(p, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
}

namespace mxgemm {
namespace {

using namespace testing;

int allocations_in(const std::function<void()>& body) {
  allocations = 0;
  counting = true;
  body();
  counting = false;
  return allocations;
}

TEST(NoAllocation, TheHookSeesAllocations) {
  EXPECT_EQ(allocations_in([] {
              void* volatile p = std::malloc(100);
              std::free(p);
              const std::unique_ptr<int[]> q(new int[100]);
              int* volatile kept = q.get();
              (void)kept;
            }) >= 2,
            true);
}

TEST(NoAllocation, RunOnEveryKernelWithAndWithoutThreads) {
  constexpr std::int64_t kM = 9, kN = 272, kK = 784;
  const HostMxfp4 w = random_mxfp4(kN, kK, 1, {120, 127});
  const auto x = random_bf16(kM * kK, 2);
  HostMxfp4 a(kM, kK);
  std::vector<float> bias(kN, 1.0f), c(kM * kN);
  const MatrixView<float> out{c.data(), kM, kN, kN};
  auto pool = ThreadPool::create(4);
  ASSERT_OK(pool);
  for (const Activation activation : {Activation::mxfp4, Activation::none})
    for (const KernelDesc* kernel : runnable_kernels(activation))
      for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), pool->get()}) {
        const Plan plan =
            *Plan::create(Device::cpu(), make_weights(w, Layout::cpu_panel16), kM,
                          {.activation = activation, .kernel = kernel->name, .threads = threads});
        std::vector<std::byte> workspace(plan.workspace_bytes());
        EXPECT_EQ(allocations_in([&] {
                    EXPECT_OK(plan.run(bf16_view(x, kM, kK), out, workspace, {2.0f, bias}));
                  }),
                  0)
            << kernel->name;
        EXPECT_EQ(allocations_in([&] {  // errors neither
                    EXPECT_FALSE(plan.run(bf16_view(x, kM, kK), out, {}).is_ok() &&
                                 plan.workspace_bytes() > 0);
                  }),
                  0);
        if (activation == Activation::none) continue;
        std::vector<float> sums(c.size() * 4);
        std::vector<PartialNode> nodes(4);
        EXPECT_EQ(
            allocations_in([&] {
              EXPECT_OK(quantize(bf16_view(x, kM, kK), a.buffer(), {.threads = threads}));
              EXPECT_OK(plan.run(a.view(), out, workspace));
              if (kernel->mxfp4 == Reproducible::device)
                EXPECT_OK(plan.run_partial(a.view(), {}, sums, nodes, workspace));
              else
                nodes[0] = {0, 4, sums.data()};
              EXPECT_OK(combine_partial_nodes(std::span(nodes).first(1), out));
              EXPECT_OK(dequantize(a.view(), MatrixView<float>{sums.data(), kM, kK, kK}, threads));
            }),
            0)
            << kernel->name;
      }
}

}  // namespace
}  // namespace mxgemm
