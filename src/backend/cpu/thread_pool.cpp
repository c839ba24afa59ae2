// A small pool: workers sleep until a batch arrives, take task numbers from a shared counter, and
// the caller works along.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "mxgemm/threads.h"

namespace mxgemm {
namespace {

constexpr int kMaxThreads = 1024;

int available_cpus() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

class WorkerPool final : public ThreadPool {
 public:
  explicit WorkerPool(int num_threads) {
    workers_.reserve(static_cast<std::size_t>(num_threads) - 1);
    try {
      for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      join_workers();  // those that did start
      throw;
    }
  }

  ~WorkerPool() override { join_workers(); }

  int num_threads() const noexcept override { return static_cast<int>(workers_.size()) + 1; }

  void run(std::int64_t num_tasks, Task task, void* context) noexcept override {
    const std::lock_guard turn(turn_);  // one batch at a time; a second caller waits
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      context_ = context;
      num_tasks_ = num_tasks;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++batch_;
    }
    start_.notify_all();
    take_tasks();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void join_workers() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void take_tasks() noexcept {
    for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < num_tasks_;)
      task_(context_, i);
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return stop_ || batch_ != seen; });
      if (stop_) return;
      seen = batch_;
      lock.unlock();
      take_tasks();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_, mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  bool stop_ = false;
  int busy_ = 0;
  std::uint64_t batch_ = 0;
  // Written under mutex_ before workers wake, read by them afterwards.
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::int64_t num_tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
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
