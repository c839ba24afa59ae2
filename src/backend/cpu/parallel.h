// Splitting work over the caller's pool, in a floating-point environment we know.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include <cstdint>

#include "mxgemm/threads.h"

namespace mxgemm::cpu {

/// Rounding to nearest and gradual underflow while it lives: numerics must not depend on whether
/// the calling program flushes denormals (as deep-learning frameworks like to).
class DefaultFloatEnvironment {
 public:
#if defined(__SSE2__)
  // fesetenv() also reloads the x87 unit, which no kernel uses: 400 ns instead of a few.
  DefaultFloatEnvironment() noexcept : saved_(_mm_getcsr()) {
    _mm_setcsr(kAllMasked);
  }
  ~DefaultFloatEnvironment() {
    _mm_setcsr(saved_);
  }
#else
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() {
    std::fesetenv(&saved_);
  }
#endif
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kAllMasked = 0x1F80;
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

inline int num_threads(const ThreadPool* pool) noexcept {
  return pool == nullptr || pool->num_threads() < 1 ? 1 : pool->num_threads();
}

/// body(i) for every i in [0, count); body is noexcept.
template <class Body>
void parallel_for(ThreadPool* pool, std::int64_t count, const Body& body) noexcept {
  if (num_threads(pool) == 1 || count <= 1) {
    const DefaultFloatEnvironment environment;
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  const auto task = [](void* context, std::int64_t index) noexcept {
    const DefaultFloatEnvironment environment;
    (*static_cast<const Body*>(context))(index);
  };
  pool->run(count, task, const_cast<Body*>(&body));  // the task only reads it
}

}  // namespace mxgemm::cpu
