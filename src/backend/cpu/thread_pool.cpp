// A small pool. Every thread starts on a contiguous range of the tasks, always the same one for the
// same number of tasks (so that memory it touched first is read by it again), then helps the others
// out. The caller works along and never waits for a thread that has not begun.
//
// Between batches workers spin for a moment, so that layers in a row cost no system call, then
// sleep. Sleeping is a mutex and condition variables; the batch itself is one atomic word.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/cpu/isa.h"
#include "mxgemm/threads.h"

namespace mxgemm {
namespace {

constexpr int kMaxThreads = 1024;

// A sleeping thread takes 5 to 50 us to wake. The gap between two layers of a model is shorter than
// this; longer than this would take the processor from somebody.
constexpr auto kSpinTime = std::chrono::microseconds(50);

int available_cpus() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Waits kSpinTime for a condition; whether it came true.
template <class Condition>
bool spin_until(const Condition& condition) noexcept {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {  // the clock costs as much as a pause
      if (condition()) return true;
      cpu::relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

class WorkerPool final : public ThreadPool {
 public:
  explicit WorkerPool(int num_threads)
      : ranges_(static_cast<std::size_t>(num_threads)), spins_(num_threads <= available_cpus()) {
    workers_.reserve(static_cast<std::size_t>(num_threads) - 1);
    try {
      for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (...) {
      join_workers();  // those that did start
      throw;
    }
  }

  ~WorkerPool() override { join_workers(); }

  int num_threads() const noexcept override { return static_cast<int>(ranges_.size()); }

  void run(std::int64_t num_tasks, Task task, void* context) noexcept override {
    const std::lock_guard turn(turn_);  // one batch at a time; a second caller waits
    if (num_tasks <= 0) return;
    // Nobody is inside: the batch before was closed, and left by all.
    task_ = task;
    context_ = context;
    const auto threads = static_cast<std::int64_t>(ranges_.size());
    std::int64_t begin = 0;
    for (std::int64_t t = 0; t < threads; ++t) {
      Range& range = ranges_[static_cast<std::size_t>(t)];
      range.next.store(begin, std::memory_order_relaxed);
      begin += num_tasks / threads + (t < num_tasks % threads ? 1 : 0);
      range.end = begin;
    }
    state_.fetch_add(kBatch | kOpen);
    wake_sleepers();
    take_tasks(0);
    state_.fetch_and(~kOpen);
    wait_for_workers();
  }

 private:
  // state_: the number of the batch, how many workers are inside it, whether more may enter. The
  // batch can change only while it is closed and nobody is inside.
  static constexpr std::uint64_t kOpen = 1, kInside = 2, kBatch = 1u << 12;
  static constexpr std::uint64_t kInsideMask = kBatch - kInside;
  static_assert(kMaxThreads * kInside < kBatch);

  struct alignas(64) Range {  // a cache line each
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  void join_workers() noexcept {
    stop_.store(true);
    wake_sleepers();
    for (std::thread& worker : workers_) worker.join();
  }

  /// A sleeper either counts itself before this reads the number, or sees what was stored before.
  void wake_sleepers() noexcept {
    if (num_sleepers_.load() == 0) return;
    { const std::lock_guard lock(mutex_); }  // whoever counted itself is waiting now
    start_.notify_all();
  }

  /// The own range first, then what is left of the others'.
  void take_tasks(std::size_t self) noexcept {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      Range& range = ranges_[(self + i) % ranges_.size()];
      while (range.next.load(std::memory_order_relaxed) < range.end) {
        const std::int64_t task = range.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= range.end) break;
        task_(context_, task);
      }
    }
  }

  void wait_for_workers() noexcept {
    const auto all_left = [this] { return (state_.load() & kInsideMask) == 0; };
    if (all_left() || (spins_ && spin_until(all_left))) return;
    std::unique_lock lock(mutex_);
    caller_sleeps_.store(true);
    done_.wait(lock, all_left);
    caller_sleeps_.store(false);
  }

  /// Enters the batch if it is open and not `seen` yet.
  bool try_enter(std::uint64_t& seen) noexcept {
    std::uint64_t state = state_.load();
    while ((state & kOpen) != 0 && state / kBatch != seen) {
      if (!state_.compare_exchange_weak(state, state + kInside)) continue;
      seen = state / kBatch;
      return true;
    }
    return false;
  }

  void leave() noexcept {
    const std::uint64_t state = state_.fetch_sub(kInside) - kInside;
    if ((state & (kInsideMask | kOpen)) != 0 || !caller_sleeps_.load()) return;
    { const std::lock_guard lock(mutex_); }
    done_.notify_one();
  }

  void work(int self) noexcept {
    std::uint64_t seen = 0;
    bool inside = false;
    const auto called = [&] { return stop_.load() || (inside = try_enter(seen)); };
    for (;;) {
      if (!spins_ || !spin_until(called)) {
        std::unique_lock lock(mutex_);
        num_sleepers_.fetch_add(1);
        start_.wait(lock, called);
        num_sleepers_.fetch_sub(1);
      }
      if (!inside) return;
      take_tasks(static_cast<std::size_t>(self));
      leave();
      inside = false;
    }
  }

  std::mutex turn_, mutex_;
  std::condition_variable start_, done_;
  std::vector<Range> ranges_;
  std::vector<std::thread> workers_;
  const bool spins_;  // only where every thread can have a processor
  std::atomic<bool> stop_{false}, caller_sleeps_{false};
  std::atomic<int> num_sleepers_{0};
  alignas(64) std::atomic<std::uint64_t> state_{0};
  Task task_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace

ThreadPool::~ThreadPool() = default;

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int num_threads) {
  if (num_threads < 0 || num_threads > kMaxThreads)
    return Status::error(StatusCode::invalid_argument, "num_threads is %d, must be 0 to %d",
                         num_threads, kMaxThreads);
  if (num_threads == 0) num_threads = std::min(available_cpus(), kMaxThreads);
  try {
    return std::unique_ptr<ThreadPool>(std::make_unique<WorkerPool>(num_threads));
  } catch (const std::system_error&) {
    return Status::error(StatusCode::unsupported, "the system refused to start %d threads",
                         num_threads);
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "no memory for %d threads", num_threads);
  }
}

}  // namespace mxgemm
