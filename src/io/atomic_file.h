// Files that appear whole or not at all: written beside the target, then renamed over it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "mxgemm/status.h"

namespace mxgemm::io {

/// A temporary file in the target's folder, removed again unless commit() succeeds. Its mode is
/// 0666 less the umask. Only a killed process leaves one behind, named `.mxgemm-*.tmp`.
class AtomicFile {
 public:
  /// A link is written through. Errors: invalid_argument (empty path; path is a folder, device,
  /// pipe or socket), io_error.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();

  /// Appends. Small pieces are collected; after an error every further call returns it again.
  Status write(std::span<const std::uint8_t> bytes);
  Status write(std::string_view text);
  /// Flushes to the disk and renames into place, replacing a file of that name.
  Status commit();

 private:
  struct Impl;
  explicit AtomicFile(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Creates or replaces a whole file.
Status write_file(const std::filesystem::path& path, std::string_view contents);
/// Copies a file's bytes (following links), not its mode or times.
Status copy_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace mxgemm::io
