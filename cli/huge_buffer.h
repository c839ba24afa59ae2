// Memory of the measurements: on huge pages, so that no one's time is spent on page tables.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace mxgemm::cli {

/// Zeroed bytes, all their pages touched, aligned to 2 MB and asked for on huge pages whatever
/// their number; the request is a hint that the system may refuse. Throws std::bad_alloc.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(whole_pages(bytes), kAlignment))),
        bytes_(bytes) {
    (void)madvise(data_.get(), whole_pages(bytes), MADV_HUGEPAGE);
    // Not left to the first reader: untouched pages would all be one page of zeros.
    std::memset(data_.get(), 0, bytes);
  }

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return bytes_; }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static constexpr std::align_val_t kAlignment{kPage};
  static constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
  }
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  std::size_t bytes_ = 0;
};

}  // namespace mxgemm::cli
