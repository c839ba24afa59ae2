// The thread pool, and products whose bits must not depend on it: K cut over threads, tasks in any
// order.
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "backend/cpu/k_split.h"
#include "gemm_testing.h"

namespace mxgemm {
namespace {

using namespace testing;
using std::chrono::microseconds;

/// Counts how often each task of a batch has run.
struct Hits {
  explicit Hits(std::int64_t count) : counts(static_cast<std::size_t>(count)) {}
  void run_on(ThreadPool& pool) {
    pool.run(
        static_cast<std::int64_t>(counts.size()),
        [](void* context, std::int64_t i) noexcept {
          static_cast<Hits*>(context)->counts[static_cast<std::size_t>(i)].fetch_add(
              1, std::memory_order_relaxed);
        },
        this);
  }
  bool all_once() const {
    return std::all_of(counts.begin(), counts.end(), [](const auto& n) { return n == 1; });
  }
  std::vector<std::atomic<int>> counts;
};

// Workers spin for 50 us, then sleep: batches come while they spin, fall asleep and sleep.
TEST(ThreadPool, BatchesAfterAnyPause) {
  Rng rng(1);
  for (const int threads : {2, 3, 4, 17}) {
    auto pool = ThreadPool::create(threads);
    ASSERT_OK(pool);
    for (int batch = 0; batch < 400; ++batch) {
      Hits hits(1 + rng() % 50);
      hits.run_on(**pool);
      ASSERT_TRUE(hits.all_once()) << threads << " threads, batch " << batch;
      const auto until = std::chrono::steady_clock::now() + microseconds(rng() % 4 * 25);
      if (rng() % 16 == 0) std::this_thread::sleep_until(until + microseconds(300));
      while (std::chrono::steady_clock::now() < until) {
      }
    }
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  auto pool = ThreadPool::create(3);
  ASSERT_OK(pool);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int batch = 0; batch < 200; ++batch) {
        Hits hits(7);
        hits.run_on(**pool);
        if (!hits.all_once()) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, PoolsComeAndGo) {
  for (int i = 0; i < 100; ++i) {
    auto pool = ThreadPool::create(1 + i % 5);
    ASSERT_OK(pool);
    Hits hits(i % 3);
    hits.run_on(**pool);
    EXPECT_TRUE(hits.all_once());
  }
}

// A batch must not wait for a worker that has nothing to do in it, but for one that has.
TEST(ThreadPool, WaitsForTasksThatOthersTook) {
  auto pool = ThreadPool::create(2);
  ASSERT_OK(pool);
  for (int batch = 0; batch < 20; ++batch) {
    std::atomic<int> done{0};
    (*pool)->run(
        4,
        [](void* context, std::int64_t) noexcept {
          std::this_thread::sleep_for(microseconds(200));
          static_cast<std::atomic<int>*>(context)->fetch_add(1, std::memory_order_relaxed);
        },
        &done);
    ASSERT_EQ(done, 4);
  }
}

// What a thread touched first, it gets again: task i of n belongs to the same thread each time.
TEST(ThreadPool, ThreadsKeepTheirPartOfTheTasks) {
  constexpr int kThreads = 4;
  auto pool = ThreadPool::create(kThreads);
  ASSERT_OK(pool);
  struct Batch {
    std::atomic<int> arrived{0};
    std::thread::id ids[kThreads];
  };
  Batch first, second;
  for (Batch* batch : {&first, &second})
    (*pool)->run(
        kThreads,
        [](void* context, std::int64_t i) noexcept {
          auto& b = *static_cast<Batch*>(context);
          b.ids[i] = std::this_thread::get_id();
          b.arrived.fetch_add(1);
          while (b.arrived.load() < kThreads) std::this_thread::yield();  // nobody takes two
        },
        batch);
  for (int i = 0; i < kThreads; ++i) EXPECT_EQ(first.ids[i], second.ids[i]);
  EXPECT_EQ(first.ids[0], std::this_thread::get_id());
}

TEST(KSplit, CoversKWithinItsSlots) {
  for (std::int64_t threads = 1; threads <= 64; ++threads)
    for (std::int64_t tiles = 1; tiles <= 70; ++tiles)
      for (const std::int64_t spans : {1, 2, 3, 7, 8, 11, 12, 56, 1000}) {
        const cpu::KSplit split(tiles, spans, threads);
        ASSERT_GE(split.num_parts * split.part_spans, spans);
        ASSERT_LT((split.num_parts - 1) * split.part_spans, spans);
        if (split.num_parts == 1) continue;
        ASSERT_LT(tiles, threads);
        ASSERT_EQ(split.part_spans & (split.part_spans - 1), 0);
        ASSERT_LE(tiles * split.num_parts, cpu::KSplit::max_slots(threads));
      }
  const cpu::KSplit narrow(4, 56, 16);  // N = 64, K = 14336
  EXPECT_EQ(narrow.num_parts, 4);
  EXPECT_EQ(narrow.part_spans, 16);
}

/// As many threads as one likes, in fact one, which takes the tasks in a shuffled order.
class ShufflingPool final : public ThreadPool {
 public:
  explicit ShufflingPool(int threads) : threads_(threads), rng_(static_cast<unsigned>(threads)) {}
  int num_threads() const noexcept override { return threads_; }
  void run(std::int64_t num_tasks, Task task, void* context) noexcept override {
    std::vector<std::int64_t> order(static_cast<std::size_t>(num_tasks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng_);
    for (const std::int64_t i : order) task(context, i);
    most_tasks = std::max(most_tasks, num_tasks);
  }
  std::int64_t most_tasks = 0;

 private:
  int threads_;
  Rng rng_;
};

constexpr struct {
  std::int64_t m, n, k;
} kNarrow[] = {{1, 64, 3584}, {9, 33, 2881}, {5, 16, 5120}, {3, 1, 256}};

// Few tiles: K is cut at nodes of the tree. Every kernel with the ordered sum, 1 to 64 threads.
TEST(NarrowProducts, ThreadCountsAndTaskOrdersGiveTheSameBits) {
  for (const auto& [m, n, k] : kNarrow) {
    const HostMxfp4 a = random_mxfp4(m, k, 1, {110, 120, 121, 127}),
                    w = random_mxfp4(n, k, 2, {90, 120, 124, 130});
    const std::vector<float> want = reference(a, w);
    const Weights weights = make_weights(w, Layout::cpu_panel16);
    for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4)) {
      if (kernel->mxfp4 != Reproducible::device) continue;
      for (const int threads : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 48, 63, 64}) {
        ShufflingPool pool(threads);
        ASSERT_EQ(bits_of(run_on(*kernel, weights, a, m, &pool)), bits_of(want))
            << kernel->name << " " << threads << " threads, n " << n << " k " << k;
        if (threads == 64 && n == 64 && kernel->name == "cpu_portable") {
          EXPECT_GE(pool.most_tasks, 32);
        }
      }
      auto pool = ThreadPool::create(16);
      ASSERT_OK(pool);
      for (int repeat = 0; repeat < 5; ++repeat)
        ASSERT_EQ(bits_of(run_on(*kernel, weights, a, m, pool->get())), bits_of(want));
    }
  }
}

TEST(NarrowProducts, UnquantizedActivationsToo) {
  for (const auto& [m, n, k] : kNarrow) {
    const auto x = random_bf16(static_cast<std::size_t>(m * k), 3);
    const HostMxfp4 w = random_mxfp4(n, k, 2, {118, 120, 124});
    const Weights weights = make_weights(w, Layout::cpu_panel16);
    for (const KernelDesc* kernel : runnable_kernels(Activation::none)) {
      PlanOptions options{.activation = Activation::none, .kernel = kernel->name};
      const std::vector<float> want = run_plan(weights, bf16_view(x, m, k), options);
      for (const int threads : {2, 5, 16, 64}) {
        ShufflingPool pool(threads);
        options.threads = &pool;
        EXPECT_EQ(bits_of(run_plan(weights, bf16_view(x, m, k), options)), bits_of(want))
            << kernel->name << " " << threads << " threads";
      }
    }
  }
}

// A part of K that is computed by many threads leaves the same nodes.
TEST(NarrowProducts, PartialRunsOnManyThreads) {
  constexpr std::int64_t kM = 3, kN = 40, kK = 2881;
  const HostMxfp4 a = random_mxfp4(kM, kK, 1, {120, 127}), w = random_mxfp4(kN, kK, 2, {120, 130});
  const std::vector<float> want = reference(a, w);
  const Weights weights = make_weights(w, Layout::cpu_panel16);
  for (const KernelDesc* kernel : runnable_kernels(Activation::mxfp4)) {
    if (kernel->mxfp4 != Reproducible::device) continue;
    ShufflingPool pool(16);
    const Result<Plan> plan = Plan::create(
        Device::cpu(), weights, kM,
        {.reproducible = Reproducible::device, .kernel = kernel->name, .threads = &pool});
    ASSERT_OK(plan);
    PoisonedWorkspace workspace(plan->workspace_bytes());
    std::vector<std::vector<float>> sums;
    std::vector<PartialNode> all;
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1280}, {1280, kK}}) {
      const PartialRange range{.k_begin = begin, .k_end = end};
      std::vector<PartialNode> nodes(static_cast<std::size_t>(*plan->num_partial_nodes(range)));
      sums.emplace_back(nodes.size() * kM * kN, NAN);
      ASSERT_OK(plan->run_partial(a.view(), range, sums.back(), nodes, workspace.span()));
      all.insert(all.end(), nodes.begin(), nodes.end());
    }
    std::vector<float> c(kM * kN);
    ASSERT_OK(combine_partial_nodes(all, MatrixView<float>{c.data(), kM, kN, kN}));
    EXPECT_EQ(bits_of(c), bits_of(want)) << kernel->name;
  }
}

}  // namespace
}  // namespace mxgemm
