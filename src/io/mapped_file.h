// A file mapped read-only. Bytes are read on use: if someone truncates the file meanwhile, touching
// the lost part raises SIGBUS. Writers that rename into place (atomic_file.h) never do that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "mxgemm/status.h"

namespace mxgemm::io {

class MappedFile {
 public:
  /// Errors: io_error (missing, unreadable, or not a regular file).
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  /// Drops the whole pages inside `part` from memory; a later read fetches them again.
  static void release(std::span<const std::uint8_t> part) noexcept;

 private:
  explicit MappedFile(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}
  std::span<const std::uint8_t> bytes_;
};

}  // namespace mxgemm::io
