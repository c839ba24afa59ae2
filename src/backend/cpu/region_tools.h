// What code compiled for one instruction set (isa_region.h) uses instead of library templates and
// of intrinsics: a template instantiated in such a region could be the copy that everyone gets.
#pragma once

#include <cstdint>

namespace mxgemm::cpu {

static inline std::int64_t min_of(std::int64_t a, std::int64_t b) noexcept {
  return a < b ? a : b;
}
static inline std::int64_t max_of(std::int64_t a, std::int64_t b) noexcept {
  return a < b ? b : a;
}

// As assembly: gcc 12 takes a function that only prefetches for one without effect, and may drop
// calls of it.

/// Into the first-level cache.
static inline void prefetch_l1(const void* p) noexcept {
  asm volatile("prefetcht0 (%0)" ::"r"(p));
}
/// Into the second-level cache.
static inline void prefetch_l2(const void* p) noexcept {
  asm volatile("prefetcht1 (%0)" ::"r"(p));
}

}  // namespace mxgemm::cpu
