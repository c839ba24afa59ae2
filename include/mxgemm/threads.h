// The threads a CPU plan may use: ours, or the caller's own behind the same interface.
#pragma once

#include <cstdint>
#include <memory>

#include "mxgemm/export.h"
#include "mxgemm/status.h"

namespace mxgemm {

/// Runs a batch of independent tasks and waits for them. Implement it to lend mxgemm the threads
/// of your own runtime. Results never depend on how tasks are spread over threads.
class MXGEMM_EXPORT ThreadPool {
 public:
  using Task = void (*)(void* context, std::int64_t index) noexcept;

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  virtual ~ThreadPool();

  /// Threads that take part, the calling one included.
  virtual int num_threads() const noexcept = 0;

  /// Calls task(context, i) once for every i in [0, num_tasks) and returns when all are done.
  /// Callers on several threads take turns. Must not be called from inside a task.
  virtual void run(std::int64_t num_tasks, Task task, void* context) noexcept = 0;

  /// A pool of num_threads threads, 1..1024, the caller of run() being one of them.
  /// 0: as many as the process may use (its affinity mask). The threads do not survive fork(): a
  /// child makes a pool of its own.
  /// Errors: invalid_argument; unsupported when the system refuses to start a thread;
  /// out_of_memory.
  static Result<std::unique_ptr<ThreadPool>> create(int num_threads = 0);
};

}  // namespace mxgemm
