#include "together.h"

#include <algorithm>
#include <atomic>

namespace mxgemm::cli {

using Clock = std::chrono::steady_clock;

struct Together::Job {
  Together& together;
  Body body;
  void* context;
  std::atomic<int> missing;
};

Together::Together(ThreadPool& threads)
    : threads_(threads), us_(static_cast<std::size_t>(threads.num_threads())) {
  numbers_.reserve(us_.size());
}

std::int64_t Together::number_of_this_thread() {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(numbers_.begin(), numbers_.end(), std::this_thread::get_id());
  const auto number = found - numbers_.begin();
  if (found == numbers_.end()) numbers_.push_back(std::this_thread::get_id());
  return number;
}

double Together::time(Body body, void* context) {
  Job job{*this, body, context, {num_threads()}};
  const auto task = [](void* data, std::int64_t) noexcept {
    auto& shared = *static_cast<Job*>(data);
    const std::int64_t number = shared.together.number_of_this_thread();
    // A thread that waits takes no second task, so every thread of the pool gets here.
    shared.missing.fetch_sub(1);
    for (int spins = 0; shared.missing.load() > 0; ++spins) {
      if (spins > 10000) std::this_thread::yield();  // more threads than processors
    }
    const auto start = Clock::now();
    shared.body(shared.context, number);
    shared.together.us_[static_cast<std::size_t>(number)] =
        std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  };
  threads_.run(num_threads(), task, &job);
  return *std::max_element(us_.begin(), us_.end());
}

}  // namespace mxgemm::cli
