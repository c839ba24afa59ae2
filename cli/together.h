// All threads of a pool at once, for measuring what the machine can do rather than the pool.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "mxgemm/threads.h"

namespace mxgemm::cli {

/// Times loops that start on every thread of a pool at the same moment.
class Together {
 public:
  /// Work of the thread with a number from 0; a thread keeps its number, and so its caches.
  using Body = void (*)(void* context, std::int64_t number) noexcept;

  explicit Together(ThreadPool& threads);
  int num_threads() const noexcept { return threads_.num_threads(); }

  /// The longest time of one thread, in microseconds.
  double time(Body body, void* context);

 private:
  struct Job;
  std::int64_t number_of_this_thread();

  ThreadPool& threads_;
  std::mutex mutex_;
  std::vector<std::thread::id> numbers_;
  std::vector<double> us_;
};

}  // namespace mxgemm::cli
