// Carving arrays out of a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mxgemm::cpu {

/// Each array on a cache line of its own; without a base it only counts.
class Arena {
 public:
  explicit Arena(std::byte* base) noexcept : base_(base) {}
  template <class T>
  T* take(std::int64_t count) noexcept {
    T* p = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return p;
  }
  std::size_t used() const noexcept { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace mxgemm::cpu
